"""Stalled paths, deaths and returns in emulated DCs: who is left goes on, every element of every result is right."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.bed import Testbed
from workers.client import WorkersClient
from workers.job import Agent, Job, Rank, job_to_json

pytestmark = pytest.mark.emulated

KIB, MIB = 2**10, 2**20


def job(bed: Testbed, logs: Path, **fields: Any) -> Job:
    ranks = tuple(Rank(dc, bed.dc(dc).netns_pid) for dc in bed.wan.dcs)
    return Job(**{"ranks": ranks, "size_bytes": 512 * KIB, "chunk_bytes": 32 * KIB, "log_folder": str(logs), **fields})


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]


def run(client: WorkersClient, plan: Job, then: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
    """Everything that happened, `then` being told of each; all collectives are there and right."""
    events: list[dict[str, Any]] = []

    def on_event(event: dict[str, Any]) -> None:
        events.append(event)
        then(event)

    client.start(plan)
    assert client.run(on_event)
    collectives = of_kind(events, "collective")
    assert [c["index"] for c in collectives] == list(range(plan.collectives))
    assert all(c["verified"] for c in collectives)
    return events


def stalling(bed: Testbed, seconds: float) -> Callable[[dict[str, Any]], None]:
    """A path of the ring passes nothing for so long, from the end of the first collective on."""

    def then(event: dict[str, Any]) -> None:
        if event.get("index") == 0:
            bed.blackhole("frankfurt-oregon")
            threading.Timer(seconds, bed.heal, ["frankfurt-oregon"]).start()

    return then


def test_a_path_that_stalls_for_three_seconds_makes_the_collective_late_and_nothing_else(
    bed: Testbed, client: WorkersClient, tmp_path: Path
):
    events = run(client, job(bed, tmp_path, size_bytes=2 * MIB, collectives=3, elastic=True), stalling(bed, 3.0))
    times = [c["time_s"] for c in of_kind(events, "collective")]
    assert times[1] > times[0] + 2.5
    assert of_kind(events, "membership") == []


def test_a_path_that_stalls_for_longer_than_gloo_waits_costs_connections_and_no_process(
    bed: Testbed, client: WorkersClient, tmp_path: Path
):
    events = run(client, job(bed, tmp_path, size_bytes=MIB, collectives=3, timeout_s=1.5), stalling(bed, 2.0))
    changes = of_kind(events, "membership")
    assert changes and all(change["broken"] and not change["left"] for change in changes)
    assert all(len(c["members"]) == 4 for c in of_kind(events, "collective"))
    assert max(c["attempts"] for c in of_kind(events, "collective")) > 1
    assert len((tmp_path / "rank0.log").read_text().split("process ")) == 2  # it was started once


def test_each_rank_is_killed_in_turn_in_its_dc_and_comes_back(bed: Testbed, client: WorkersClient, tmp_path: Path):
    # given a ring agent that changes the ring before every second collective, on whichever rank is the first
    dcs, to_come = list(bed.wan.dcs), []
    to_go = list(dcs)

    def then(event: dict[str, Any]) -> None:
        if event["event"] == "membership" and event["left"]:
            to_come.append(event["left"][0]["dc"])
        elif event["event"] == "collective" and to_come:
            client.restart(to_come.pop())
        elif (event["event"] == "membership" or event.get("index") == 0) and to_go:
            threading.Timer(0.05, client.crash, [to_go.pop(0)]).start()

    agent = Agent(every=2, policy="random")
    events = run(client, job(bed, tmp_path, collectives=30, elastic=True, agent=agent, seed=5), then)
    changes = of_kind(events, "membership")
    assert [left["dc"] for change in changes for left in change["left"]] == dcs
    assert [joined["dc"] for change in changes for joined in change["joined"]] == dcs
    assert len(of_kind(events, "collective")[-1]["members"]) == 4
    # and nobody waited for a timeout
    assert max(change["pause_s"] for change in changes) < 5.0


SCRIPT = """
import os, signal, sys, time
from datetime import timedelta
import torch, torch.distributed as dist
import workers.group

rank, n, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("ring", store=dist.FileStore(store, n), rank=rank, world_size=n, timeout=timedelta(minutes=5))
dist.barrier()
if rank == 2:
    print(time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        dist.all_reduce(torch.ones(500_000))
except workers.group.RankDied as died:
    print(time.monotonic(), died, flush=True)
"""


def test_a_scripts_rank_that_dies_in_its_dc_is_named_by_all_others_within_five_seconds(bed: Testbed, tmp_path: Path):
    dcs = bed.wan.dcs
    agent = Job(ranks=tuple(map(Rank, dcs)), size_bytes=8, log_folder=str(tmp_path))
    environment = os.environ | {
        "RINGROAD_AGENT": json.dumps(job_to_json(agent)),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", SCRIPT]
    processes = [
        bed.dc(dc).popen(
            [*command, str(rank), str(len(dcs)), str(tmp_path / "store")], log=tmp_path / f"{dc}.txt", env=environment
        )
        for rank, dc in enumerate(dcs)
    ]
    assert [process.wait(90) == 0 for process in processes] == [True, True, False, True]
    said = [(tmp_path / f"{dc}.txt").read_text().strip().splitlines()[-1].partition(" ") for dc in dcs]
    died_at = float(said[2][0])
    for rank in (0, 1, 3):
        assert float(said[rank][0]) - died_at < 5.0
        assert said[rank][2].startswith("rank 2 (tokyo) has died")
