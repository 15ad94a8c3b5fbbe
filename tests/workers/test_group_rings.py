"""The ring of a process group: changed by hand or by an agent, agreed by all, and what a dead rank does to it."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

from topologies import wire
from topologies.errors import InputError
from workers.agent import Disagreement, Ring
from workers.backend.automatic import CHANGES, VARIABLE
from workers.group import ring_of, set_order
from workers.job import Agent, Job, Probe, Rank, job_to_json

BULK = 100_000
"""Elements that go round the ring."""

SEEN = 3 * 2**20
"""Elements of a shard that comes in enough chunks to see the rate of a link."""


def assert_bulk_works(group: dist.ProcessGroup | None = None) -> None:
    n, mine = dist.get_world_size(group), torch.full((BULK,), 1.0)
    dist.all_reduce(mine, group=group)
    assert (mine == n).all()


def test_an_order_holds_for_its_group_alone_and_counts_as_an_epoch():
    def main() -> None:
        twin = dist.new_group([0, 1, 2])
        assert ring_of() == Ring(0, (0, 1, 2))
        assert set_order(None, [0, 2, 1]) == Ring(1, (0, 2, 1))
        assert set_order(None, [0, 2, 1]) == Ring(1, (0, 2, 1))
        assert ring_of(twin) == Ring(0, (0, 1, 2))
        assert_bulk_works()
        assert_bulk_works(twin)

    run_ranks(3, main)


def test_an_order_waits_for_what_was_begun_before_it():
    def main() -> None:
        tensors = [torch.full((BULK,), 1.0) for _ in range(5)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        set_order(None, [2, 0, 1])
        assert all(work.is_completed() for work in works)
        assert all((tensor == 3).all() for tensor in tensors)

    run_ranks(3, main)


def test_ranks_that_disagree_are_told_so_and_stay_on_the_old_ring():
    def main() -> None:
        with pytest.raises(Disagreement, match="epoch and order"):
            set_order(None, [0, 1, 2] if dist.get_rank() else [0, 2, 1])
        assert ring_of() == Ring(0, (0, 1, 2))
        assert_bulk_works()

    run_ranks(3, main)


def test_what_is_no_order_or_no_ring_is_refused():
    def main() -> None:
        with pytest.raises(InputError, match="not every rank"):
            set_order(None, [0, 0])
        with pytest.raises(InputError, match="ring backend"):
            set_order(dist.new_group([0, 1], backend="gloo"), [1, 0])

    run_ranks(2, main)


DCS = ("oslo", "lima", "pune", "nara")


def agent_job(folder: Path, dcs: tuple[str, ...] = DCS, **agent: object) -> str:
    job = Job(
        ranks=tuple(Rank(dc) for dc in dcs),
        bandwidth_socket=str(folder / "bandwidths.sock"),
        size_bytes=4,
        log_folder=str(folder),
        agent=Agent(**{"source": "probe", "probe": Probe(chunk_bytes=4096), **agent}),  # type: ignore[arg-type]
    )
    return json.dumps(job_to_json(job))


def test_an_agent_of_the_environment_changes_the_ring_under_a_script_that_knows_nothing(tmp_path: Path):
    def main() -> tuple[Ring, Ring]:
        os.environ[VARIABLE] = agent_job(tmp_path, every=2, policy="random")
        whole, pair = dist.new_group(list(range(4))), dist.new_group([0, 1])
        for _ in range(7):
            assert_bulk_works(whole)
            small = torch.ones(3)
            dist.all_reduce(small, group=whole)  # no turn of the agent's
        if dist.get_rank() < 2:
            assert_bulk_works(pair)
            assert ring_of(pair) == Ring(0, (0, 1))
        return ring_of(whole)

    rings = run_ranks(4, main)
    assert len(set(rings)) == 1
    assert rings[0].epoch == 3
    changes = [json.loads(line) for line in (tmp_path / CHANGES).read_text().splitlines()]
    assert [(change["before_collective"], change["epoch"]) for change in changes] == [(2, 1), (4, 2), (6, 3)]
    assert changes[-1]["to"] == list(rings[0].order)
    assert changes[-1]["members"] == [[0], [1], [2], [3]]


def test_ranks_of_one_dc_stay_together_when_the_network_is_told_by_dc(tmp_path: Path):
    """Six ranks in four DCs. Fast are 0 → 2 → 1 → 3 → 0 of the four; the listed order uses a slow link."""
    fast = {(0, 2), (2, 1), (1, 3), (3, 0)}
    reply = {"bandwidths": [[9e8 if (a, b) in fast else 1e8 for b in range(4)] for a in range(4)]}
    asked: list[list[str]] = []

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            for message in wire.messages(connection):
                asked.append(message["dcs"])
                wire.send(connection, reply)

    def main() -> Ring:
        dcs = (*DCS, "oslo", "pune")
        os.environ[VARIABLE] = agent_job(tmp_path, dcs, every=1, policy="bottleneck", source="feed")
        whole = dist.new_group(list(range(6)))
        for _ in range(2):
            assert_bulk_works(whole)
        return ring_of(whole)

    with wire.listen(tmp_path / "bandwidths.sock") as server:
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        rings = run_ranks(6, main)
        thread.join(timeout=5)
    assert asked == [list(DCS)]
    assert set(rings) == {Ring(1, (0, 4, 2, 5, 1, 3))}
    assert json.loads((tmp_path / CHANGES).read_text())["members"] == [[0, 4], [1], [2, 5], [3]]


def test_one_rank_of_each_dc_probes_and_the_ring_enters_each_dc_once(tmp_path: Path):
    def main() -> Ring:
        os.environ[VARIABLE] = agent_job(tmp_path, (*DCS, *DCS), every=1, policy="random")
        whole = dist.new_group(list(range(8)))
        for _ in range(3):
            assert_bulk_works(whole)
        return ring_of(whole)

    rings = run_ranks(8, main)
    assert len(set(rings)) == 1
    order = rings[0].order
    assert all(order[2 * place + 1] == order[2 * place] + 4 for place in range(4))
    changes = [json.loads(line) for line in (tmp_path / CHANGES).read_text().splitlines()]
    assert [len(change["bandwidths"]) for change in changes] == [4, 4]
    measured = [change["bandwidths"][a][b] for change in changes for a in range(4) for b in range(4) if a != b]
    assert min(measured) > 0


def test_collectives_and_turns_are_told_to_who_listens(tmp_path: Path):
    told: list[dict] = []

    def listen_to(server: socket.socket) -> None:
        def read(connection: socket.socket) -> None:
            with connection:
                told.extend(wire.messages(connection))

        readers = [threading.Thread(target=read, args=(server.accept()[0],), daemon=True) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout=30)

    def main() -> None:
        job = json.loads(agent_job(tmp_path, every=2, policy="random"))
        os.environ[VARIABLE] = json.dumps(job | {"records_socket": str(tmp_path / "records.sock")})
        whole = dist.new_group(list(range(4)))
        for _ in range(3):
            assert_bulk_works(whole)
        dist.broadcast(torch.zeros(BULK), 0, group=whole)
        dist.destroy_process_group(whole)

    with wire.listen(tmp_path / "records.sock") as server:
        thread = threading.Thread(target=listen_to, args=(server,), daemon=True)
        thread.start()
        run_ranks(4, main)
        thread.join(timeout=30)
    said = sorted((m["index"], m["rank"], m["collective"], m["size_bytes"]) for m in told if "collective" in m)
    kinds = ["all_reduce"] * 3 + ["broadcast"]
    assert said == [(index, rank, kind, 4 * BULK) for index, kind in enumerate(kinds) for rank in range(4)]
    (turn,) = [message["ring_change"] for message in told if "ring_change" in message]
    assert (turn["before_collective"], turn["epoch"]) == (2, 1)
    after = [message for message in told if message.get("index") == 2]
    assert all(message["order"] == turn["to"] and message["turn_start"] <= message["start"] for message in after)
    assert not (tmp_path / CHANGES).exists()


def test_a_script_works_on_when_nobody_listens(tmp_path: Path):
    def main() -> None:
        job = json.loads(agent_job(tmp_path)) | {"records_socket": str(tmp_path / "nobody.sock")}
        os.environ[VARIABLE] = json.dumps(job)
        assert_bulk_works(dist.new_group([0, 1, 2]))

    run_ranks(3, main)


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_a_passive_agent_sees_every_collective_send_along_the_order_and_never_against_it(
    tmp_path: Path, collective: str
):
    def main() -> None:
        os.environ[VARIABLE] = agent_job(tmp_path, every=2, policy="fixed", source="passive")
        whole = dist.new_group(list(range(4)))
        set_order(whole, [0, 2, 1, 3])
        shard, all_shards = torch.ones(SEEN), torch.ones(4 * SEEN)
        for _ in range(3):
            if collective == "all_gather":
                dist.all_gather_single(all_shards, shard, group=whole)
            elif collective == "reduce_scatter":
                dist.reduce_scatter_single(shard, all_shards, group=whole)
            else:
                dist.all_reduce(all_shards, group=whole)

    run_ranks(4, main)
    (change,) = [json.loads(line) for line in (tmp_path / CHANGES).read_text().splitlines()]
    seen = {(a, b) for a in range(4) for b in range(4) if a != b and change["ages_s"][a][b] is not None}
    assert seen == {(0, 2), (2, 1), (1, 3), (3, 0)}


def test_an_environment_that_holds_no_job_is_named(tmp_path: Path):
    def main() -> None:
        for text in ("{", agent_job(tmp_path).replace("ranks", "tanks")):
            os.environ[VARIABLE] = text
            with pytest.raises(InputError, match=VARIABLE):
                dist.new_group([0, 1, 2])

    run_ranks(3, main)


def test_a_rank_that_dies_is_noticed_by_all_others_at_once_in_bulk_and_in_small():
    """Also two hops away on the ring, and although the neighbours of the dead stay."""

    def main(elements: int) -> float | None:
        rank = dist.get_rank()
        tensor = torch.ones(elements)
        dist.all_reduce(tensor)
        if rank == 2:
            os._exit(0)
        started = time.monotonic()
        with pytest.raises(RuntimeError):
            while True:
                dist.all_reduce(tensor)
        noticed = time.monotonic() - started
        with pytest.raises(RuntimeError):
            dist.all_reduce(tensor)
        dist.barrier = lambda: time.sleep(0)  # the harness's last one cannot work
        return noticed

    for elements in (3, BULK):
        noticed = run_ranks(5, main, elements)
        assert noticed[2] is None
        assert all(seconds < 5 for rank, seconds in enumerate(noticed) if rank != 2), noticed
