"""A rank of a script dies: every other rank raises within 5 s, naming rank and DC; who leaves in order is no death."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

from workers.backend.automatic import VARIABLE
from workers.backend.deathwatch import RankDied, _watches
from workers.backend.meeting import meet
from workers.job import Job, Rank, job_to_json

DCS = ("amsterdam", "iowa", "lagos", "tokyo")
SOON_S = 5.0
LARGE, SMALL = 500_000, 10


def all_gather(size: int) -> None:
    dist.all_gather_single(torch.empty(dist.get_world_size() * size), torch.ones(size))


def broadcast_from_the_dead(size: int) -> None:
    dist.broadcast(torch.ones(size), 2)


def all_to_all(size: int) -> None:
    n = dist.get_world_size()
    dist.all_to_all_single(torch.empty(n * size), torch.ones(n * size))


def message_from_a_neighbour(size: int) -> None:
    """Nobody here waits for the dead rank itself: each for one that never sends."""
    dist.recv(torch.empty(size), {0: 1, 1: 3, 3: 0}[dist.get_rank()])


COLLECTIVES = {
    "all_gather": all_gather,
    "all_reduce": lambda size: dist.all_reduce(torch.ones(size)),
    "reduce_scatter": lambda size: dist.reduce_scatter_single(torch.empty(size), torch.ones(4 * size)),
    "broadcast": broadcast_from_the_dead,
    "all_to_all": all_to_all,
    "gather": lambda size: dist.gather(
        torch.ones(size), [torch.empty(size) for _ in range(4)] if dist.get_rank() == 0 else None, 0
    ),
    "barrier": lambda _: dist.barrier(),
    "recv": message_from_a_neighbour,
}


@pytest.fixture(autouse=True)
def dcs(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(ranks=tuple(map(Rank, DCS)), size_bytes=8, log_folder="/l")
    monkeypatch.setenv(VARIABLE, json.dumps(job_to_json(job)))


def _until_it_raises(collective: str, size: int, victim: int) -> tuple[float, str]:
    """When, on the clock of all, this rank's collective raised, and what; rank `victim` dies instead."""
    dist.barrier()
    if dist.get_rank() == victim:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        if collective == "recv":
            time.sleep(10)
    with pytest.raises(RankDied) as raised:
        while True:
            COLLECTIVES[collective](size)
    return time.monotonic(), str(raised.value)


@pytest.mark.parametrize(("collective", "size"), [(name, LARGE) for name in COLLECTIVES] + [("all_reduce", SMALL)])
def test_every_other_rank_raises_soon_and_names_who_died(collective: str, size: int):
    began = time.monotonic()
    results = run_ranks(4, _until_it_raises, collective, size, 2, meet=False)
    assert results[2] is None
    for raised_at, said in (results[rank] for rank in (0, 1, 3)):
        assert said.startswith("rank 2 (lagos) has died; ")
        assert raised_at - began < 0.3 + SOON_S + 3.0  # the ranks take their time to start
    assert max(at for at, _ in filter(None, results)) - min(at for at, _ in filter(None, results)) < SOON_S


def test_collectives_that_begin_later_say_the_same():
    def main() -> list[str]:
        dist.barrier()
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1.5)
        said = []
        for begin in (COLLECTIVES["all_gather"], COLLECTIVES["all_reduce"], all_to_all, COLLECTIVES["barrier"]):
            for size in (LARGE, SMALL):
                with pytest.raises(RankDied) as raised:
                    begin(size)
                said.append(str(raised.value))
        return said

    results = run_ranks(3, main, meet=False)
    assert all("rank 1 (iowa) has died" in said for rank in (0, 2) for said in results[rank])


def test_a_rank_that_ends_with_an_error_is_named_and_not_those_who_fail_because_of_it():
    def main() -> str:
        dist.barrier()
        if dist.get_rank() == 0:
            sys.last_value = ValueError("what the interpreter leaves when nobody catches it")
            dist.destroy_process_group()
            os._exit(0)
        with pytest.raises(RankDied) as raised:
            while True:
                all_gather(LARGE)
        dist.destroy_process_group()
        return str(raised.value)

    _, *others = run_ranks(4, main, meet=False)
    assert all(said.startswith("rank 0 (amsterdam) ended with an error") for said in others)


def test_who_leaves_in_order_harms_nobody():
    def main() -> bool:
        dist.barrier()
        rank = dist.get_rank()
        if rank == 2:
            dist.destroy_process_group()
            os._exit(0)
        time.sleep(1.5)  # longer than a death would take to end everything
        got = torch.empty(LARGE)
        receiving = dist.irecv(got, 1 - rank)
        dist.send(torch.full((LARGE,), float(rank)), 1 - rank)
        receiving.wait()
        with pytest.raises(RankDied, match=r"rank 2 \(lagos\) left before"):
            dist.recv(got, 2)
        return bool((got == 1 - rank).all())

    assert run_ranks(3, main, meet=False) == [True, True, None]


def test_children_of_a_rank_neither_leave_for_it_nor_outlive_it():
    def main() -> str:
        dist.barrier()
        if dist.get_rank() == 1:
            leaves, stays = os.fork(), None
            if leaves == 0:
                gc.collect()
                for watch in list(_watches):
                    watch.close()
                os._exit(0)
            os.waitpid(leaves, 0)
            stays = os.fork()
            if stays == 0:
                time.sleep(SOON_S + 0.5)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(RankDied) as raised:
            while True:
                all_gather(LARGE)
        assert time.monotonic() - began < SOON_S
        return str(raised.value)

    said = run_ranks(3, main, meet=False)
    assert all(said[rank].startswith("rank 1 (iowa) has died") for rank in (0, 2))


def test_a_death_is_no_business_of_a_group_without_the_dead():
    def main() -> bool:
        survivors = dist.new_group([0, 2])
        dist.barrier()
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1.5)
        with pytest.raises(RankDied):
            dist.all_reduce(torch.ones(LARGE))
        mine = torch.ones(LARGE)
        dist.all_reduce(mine, group=survivors)
        return bool((mine == 2).all())

    assert run_ranks(3, main, meet=False) == [True, None, True]


def test_a_rank_that_stalls_is_late_and_not_dead():
    def main() -> float:
        dist.barrier()
        if dist.get_rank() == 1:
            helper = subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
            helper.wait()
        begun = time.monotonic()
        mine = torch.ones(LARGE)
        dist.all_reduce(mine)
        assert (mine == 3).all()
        return time.monotonic() - begun

    assert max(run_ranks(3, main)) > 1.0


def test_a_stranger_who_calls_is_sent_away_and_the_ranks_still_meet():
    store, met = dist.HashStore(), []
    meeting = threading.Thread(target=lambda: met.append(meet(store, 0, 2, "amsterdam", 2, timedelta(days=365))))
    meeting.start()
    store.wait(["0"], timedelta(seconds=20))
    at = tuple(json.loads(store.get("0"))["at"])
    strangers = []
    for said in (b"", b"hello\n", b"\0" * 24, b"x" * 100_000):
        stranger = socket.create_connection(at)
        with suppress(OSError):
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
        strangers.append(stranger)
    silent = socket.create_connection(at)

    there = meet(store, 1, 2, "iowa", 2, timedelta(seconds=20))
    meeting.join()

    for stranger in (*strangers, silent):
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
        stranger.close()
    (here,) = met
    assert here.names == there.names == {0: "amsterdam", 1: "iowa"}
    for kind in range(2):
        here.peers[kind][1].sendall(bytes([kind]))
        assert there.peers[kind][0].recv(9) == bytes([kind])


def test_a_rank_that_does_not_come_is_named():
    store = dist.HashStore()
    store.set("1", json.dumps({"at": ["127.0.0.1", 9], "token": "00" * 16, "name": "iowa"}))
    with pytest.raises(RuntimeError, match=r"ranks \[1\] have not connected: timed out"):
        meet(store, 0, 2, "amsterdam", 1, timedelta(seconds=0.2))
