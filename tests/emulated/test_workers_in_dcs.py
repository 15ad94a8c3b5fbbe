"""Ranks inside emulated DCs: what they measure, how they switch, and what a path or a rank that fails does to them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from testbed.bed import Testbed
from topologies import EdgeProperties
from workers.client import WorkerFailed, WorkersClient
from workers.job import Agent, Job, Rank
from workers.limits import allgather_limit_s

pytestmark = pytest.mark.emulated

KIB, MIB = 2**10, 2**20


def job(bed: Testbed, logs: Path, **fields: Any) -> Job:
    ranks = tuple(Rank(dc, bed.dc(dc).netns_pid) for dc in bed.wan.dcs)
    return Job(**{"ranks": ranks, "size_bytes": 64 * KIB, "chunk_bytes": 16 * KIB, "log_folder": str(logs), **fields})


def only_this_ring_is_fast(bed: Testbed, ring: tuple[int, ...], fast_bps: float, slow_bps: float) -> None:
    dcs = bed.wan.dcs
    edges = {(dcs[a], dcs[b]) for a, b in zip(ring, (*ring[1:], ring[0]), strict=True)}
    bed.shape_many({edge: EdgeProperties(fast_bps if edge in edges else slow_bps) for edge in bed.wan.edges})


def test_over_more_than_twenty_epochs_all_ranks_switch_together_and_every_element_is_right(
    bed: Testbed, client: WorkersClient, tmp_path: Path
):
    events: list[dict[str, Any]] = []
    client.start(job(bed, tmp_path, collectives=44, agent=Agent(every=2, policy="random"), seed=1))
    client.run(events.append)
    collectives = [event for event in events if event["event"] == "collective"]
    changes = {event["before_collective"]: event for event in events if event["event"] == "ring_change"}
    assert [c["epoch"] for c in collectives] == [i // 2 for i in range(44)]
    assert all(c["verified"] for c in collectives)
    assert all(changes[c["index"]]["to"] == c["order"] for c in collectives if c["index"] in changes)
    assert len(changes) == 21


def test_probes_find_the_one_fast_ring_in_its_direction(bed: Testbed, client: WorkersClient, tmp_path: Path):
    # given a WAN where only frankfurt → virginia → oregon → tokyo → frankfurt is fast (ranks 0, 3, 1, 2)
    only_this_ring_is_fast(bed, (0, 3, 1, 2), fast_bps=80e6, slow_bps=20e6)
    events: list[dict[str, Any]] = []
    client.start(job(bed, tmp_path, collectives=2, agent=Agent(every=1)))
    client.run(events.append)
    (change,) = (event for event in events if event["event"] == "ring_change")
    # then the agent takes it, and its estimates are of the order of what the links were set to
    assert change["to"] == [0, 3, 1, 2]
    dcs = bed.wan.dcs
    for link in bed.links():
        found = change["bandwidths"][dcs.index(link.edge[0])][dcs.index(link.edge[1])]
        assert 0.5 < found / link.properties.rate_bps < 1.5


def test_the_faster_ring_is_really_faster_and_nothing_beats_the_limit(
    bed: Testbed, client: WorkersClient, tmp_path: Path
):
    # given a WAN where another ring than the listed one is four times as fast
    only_this_ring_is_fast(bed, (0, 2, 1, 3), fast_bps=80e6, slow_bps=20e6)
    events: list[dict[str, Any]] = []
    client.start(job(bed, tmp_path, size_bytes=MIB, collectives=2, agent=Agent(every=1)))
    client.run(events.append)
    before, after = (event for event in events if event["event"] == "collective")
    assert after["order"] == [0, 2, 1, 3]
    # then the next collective takes half of the time at most
    assert after["time_s"] < before["time_s"] / 2
    rates = {link.edge: link.properties.rate_bps for link in bed.links()}
    assert min(before["time_s"], after["time_s"]) > allgather_limit_s(rates, bed.wan.dcs, MIB)


def test_stock_gloo_runs_beside_the_ring(bed: Testbed, client: WorkersClient, tmp_path: Path):
    events: list[dict[str, Any]] = []
    client.start(job(bed, tmp_path, collectives=4, implementations=("ring", "gloo")))
    assert client.run(events.append)
    assert [(event["implementation"], event["verified"]) for event in events] == [("ring", True), ("gloo", True)] * 2


def test_a_path_that_stalls_makes_the_collective_late_and_nothing_else(
    bed: Testbed, client: WorkersClient, tmp_path: Path
):
    # given a collective under way whose first path passes nothing for a second
    client.start(job(bed, tmp_path, size_bytes=2 * MIB, collectives=3))
    stalled = threading.Event()

    def stall(event: dict[str, Any]) -> None:
        if event["event"] == "collective" and event["index"] == 0:
            bed.blackhole("frankfurt-oregon")
            threading.Timer(1.0, bed.heal, ["frankfurt-oregon"]).start()
            stalled.set()
        times.append((event["time_s"], event["verified"]))

    times: list[tuple[float, bool]] = []
    assert client.run(stall)
    # then it takes that second longer, and all results are right
    assert stalled.is_set()
    assert times[1][0] > times[0][0] + 0.5
    assert all(verified for _, verified in times)


def test_a_rank_that_is_killed_in_its_dc_is_named_and_the_others_end(
    bed: Testbed, client: WorkersClient, tmp_path: Path
):
    pids = client.start(job(bed, tmp_path, size_bytes=8 * MIB, collectives=100))["pids"]
    threading.Timer(0.5, os.kill, [pids[2], signal.SIGKILL]).start()
    with pytest.raises(WorkerFailed, match=r"rank 2 \(tokyo\): was killed by SIGKILL"):
        client.run(lambda _: None)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_every_rank_works_in_the_network_of_its_own_dc_and_on_its_processors(
    bed: Testbed, client: WorkersClient, tmp_path: Path
):
    pids = client.start(job(bed, tmp_path))["pids"]
    for dc, pid in zip(bed.wan.dcs, pids, strict=True):
        own = Path(f"/proc/{pid}/ns/net").readlink()
        assert own == Path(f"/proc/{bed.dc(dc).netns_pid}/ns/net").readlink()
        threads = [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]
        assert all(os.sched_getaffinity(thread) == os.sched_getaffinity(bed.dc(dc).netns_pid) for thread in threads)
    client.stop()


def test_a_rank_that_has_no_such_interface_says_so(bed: Testbed, client: WorkersClient, tmp_path: Path):
    with pytest.raises(WorkerFailed, match=r"rank \d \(\w+\): .*eth7"):
        client.start(job(bed, tmp_path, interface="eth7"))
