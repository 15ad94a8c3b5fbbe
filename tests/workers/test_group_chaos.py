"""A rank is killed at any moment of small collectives, and with messages half on their way: nobody waits for it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from waiting import eventually

from workers.backend.automatic import VARIABLE
from workers.backend.deathwatch import LET_GO_S, SETTLE_S, RankDied
from workers.job import Job, Rank, job_to_json

DCS = ("amsterdam", "iowa", "lagos", "tokyo")
N, VICTIM = len(DCS), 2
SOON_S = 5.0
WITHIN_S = 0.03
"""From the first collective."""
FLOOD, FLOOD_ELEMENTS = 2000, 4000
"""32 MB: more than the kernel keeps for a rank that does not read."""

Collective = Callable[[int], object]


@pytest.fixture(autouse=True)
def dcs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names; and what follows a death, follows sooner, so that there can be many."""
    job = Job(ranks=tuple(map(Rank, DCS)), size_bytes=8, log_folder="/l")
    monkeypatch.setenv(VARIABLE, json.dumps(job_to_json(job)))
    monkeypatch.setattr("workers.backend.deathwatch.SETTLE_S", SETTLE_S / 4)
    monkeypatch.setattr("workers.backend.deathwatch.LET_GO_S", LET_GO_S / 4)


def _message_round(size: int) -> None:
    got = torch.empty(size)
    receiving = dist.irecv(got, (dist.get_rank() - 1) % N)
    dist.send(torch.ones(size), (dist.get_rank() + 1) % N)
    receiving.wait()


def _several_at_once(size: int) -> None:
    for work in [dist.all_reduce(torch.ones(size), async_op=True) for _ in range(4)]:
        work.wait()


def _for_each(size: int) -> list[torch.Tensor]:
    return [torch.ones(size) for _ in DCS]


KINDS: dict[str, Collective] = {
    "all_gather": lambda size: dist.all_gather(_for_each(size), torch.ones(size)),
    "all_reduce": lambda size: dist.all_reduce(torch.ones(size)),
    "several all_reduces": _several_at_once,
    "reduce_scatter": lambda size: dist.reduce_scatter(torch.ones(size), _for_each(size)),
    "reduce": lambda size: dist.reduce(torch.ones(size), 0),
    "broadcast": lambda size: dist.broadcast(torch.ones(size), size % N),
    "all_to_all": lambda size: dist.all_to_all_single(torch.ones(size // N * N), torch.ones(size // N * N)),
    "gather": lambda size: dist.gather(torch.ones(size), _for_each(size) if dist.get_rank() == 0 else None, 0),
    "scatter": lambda size: dist.scatter(torch.ones(size), _for_each(size) if dist.get_rank() == 0 else None, 0),
    "barrier": lambda _: dist.barrier(),
    "messages": _message_round,
}


def _sizes(seed: int) -> Iterator[int]:
    """Of 64 B to 64 KiB, the same for all ranks."""
    drawn = random.Random(seed)
    while True:
        yield drawn.choice((16, 250, 1000, 5000, 16_000))


def _until_it_raises(kind: str, seed: int) -> tuple[float, str]:
    """How long after the death this rank raised at most, and what."""
    dist.barrier()
    if dist.get_rank() == VICTIM:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, random.Random(seed).uniform(0.0001, WITHIN_S))
    began = time.monotonic()
    with pytest.raises(RankDied) as raised:
        for size in _sizes(seed):
            KINDS[kind](size)
    return time.monotonic() - began, str(raised.value)


@pytest.mark.parametrize(("seed", "kind"), list(enumerate(KINDS)))
def test_a_death_at_any_moment_is_raised_soon_by_everybody_else(kind: str, seed: int):
    results = run_ranks(N, _until_it_raises, kind, seed, meet=False)
    assert results.pop(VICTIM) is None
    for took_s, said in results:
        assert took_s < SOON_S
        assert said.startswith(f"rank {VICTIM} (lagos) has died; ")


def _broadcasts(sender: int, _: int) -> list[dist.Work]:
    return [dist.broadcast(torch.ones(FLOOD_ELEMENTS), sender, async_op=True) for _ in range(FLOOD)]


def _messages(sender: int, reader: int) -> list[dist.Work]:
    if dist.get_rank() == sender:
        return [dist.isend(torch.ones(FLOOD_ELEMENTS), reader) for _ in range(FLOOD)]
    return [dist.irecv(torch.ones(FLOOD_ELEMENTS), sender) for _ in range(FLOOD)] if dist.get_rank() == reader else []


def _flood(begin: Callable[[int, int], list[dist.Work]], sender: int, reader: int) -> list[dist.Work]:
    """`reader` is ready to receive all of it, but stopped before anything comes, until rank VICTIM has died."""
    own, others = torch.tensor([os.getpid()]), torch.empty(1, dtype=torch.int64)
    if dist.get_rank() == sender:
        dist.send(own, reader, tag=1)
        dist.recv(others, reader, tag=1)
        status = Path(f"/proc/{others.item()}/stat")
        eventually(lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
        return begin(sender, reader)
    works = begin(sender, reader)
    if dist.get_rank() == reader:
        dist.recv(others, sender, tag=1)
        victim = own.item() if reader == VICTIM else others.item()
        after = f"sleep 1; kill -KILL {victim}; kill -CONT {os.getpid()}"
        subprocess.Popen(["sh", "-c", after], stderr=subprocess.DEVNULL)
        dist.send(own, sender, tag=1)
        os.kill(os.getpid(), signal.SIGSTOP)
    return works


@pytest.mark.parametrize(
    ("begin", "sender", "reader"),
    [
        pytest.param(_broadcasts, 0, VICTIM, id="broadcasts to the dead"),
        pytest.param(_messages, 0, VICTIM, id="messages to the dead"),
        pytest.param(_messages, VICTIM, 0, id="messages from the dead"),
    ],
)
def test_messages_that_were_half_on_their_way_are_given_up(
    begin: Callable[[int, int], list[dist.Work]], sender: int, reader: int
):
    """gloo forgets the one that was in writing or reading, and would wait for it until its timeout."""

    def main() -> tuple[float, str]:
        began = time.monotonic()
        works = _flood(begin, sender, reader)
        with pytest.raises(RankDied) as raised:
            for work in works:
                work.wait()
            dist.barrier()
        return time.monotonic() - began, str(raised.value)

    results = run_ranks(N, main, meet=False)
    assert results[0][1].startswith(f"rank {VICTIM} (lagos) has died; ")
    assert results[0][1].endswith("gloo still waits for it") or begin is _broadcasts
    assert all(results[rank][0] < 1.0 + SOON_S for rank in (0, 1, 3))
