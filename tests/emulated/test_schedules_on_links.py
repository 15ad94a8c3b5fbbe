"""Schedules on emulated links of different rates: planned ones beat the best ring, and nothing beats the limit."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.schedules import drawn_rates
from controller.settings import ControllerSettings
from testbed.bandwidths import BandwidthService, Network
from testbed.bed import Testbed
from topologies import EdgeProperties
from topologies.builtins import builtin
from workers.client import WorkersClient, launch
from workers.job import Agent, Job, Rank
from workers.limits import allgather_limit_s

pytestmark = pytest.mark.emulated

SIZE_BYTES = 2**20
MEASUREMENT_ERROR = 0.03
"""A shaper's burst allowance leaves early, and clocks of ranks are read before and after their system calls."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Testbed, WorkersClient]]:
    """Six DCs whose directed links run at 10 to 50 Mbit/s, and workers."""
    wan = builtin("six")
    with Testbed(wan, controller=ControllerSettings(policy="shortest")) as bed:
        bed.shape_many({edge: EdgeProperties(rate / 2) for edge, rate in drawn_rates(wan).items()})
        socket = bed.state / "workers.sock"
        launcher = launch(socket, tmp_path_factory.mktemp("launcher") / "launcher.log")
        try:
            with WorkersClient(socket) as client:
                yield bed, client
        finally:
            launcher.terminate()
            launcher.wait(10)
            socket.unlink()


def median_s(bed: Testbed, client: WorkersClient, logs: Path, service: BandwidthService, schedule: str) -> float:
    """What a collective takes, every element of every one verified."""
    job = Job(
        ranks=tuple(Rank(dc, bed.dc(dc).netns_pid) for dc in bed.wan.dcs),
        size_bytes=SIZE_BYTES,
        chunk_bytes=32 * 2**10,
        log_folder=str(logs),
        collectives=3,
        schedule=schedule,
        initial_order="measured_once",
        agent=Agent(source="oracle", policy="shared", margin=0.0),
        bandwidth_socket=str(service.path),
    )
    events: list[dict[str, Any]] = []
    client.start(job)
    client.run(events.append)
    collectives = [event for event in events if event["event"] == "collective"]
    assert all(event["verified"] for event in collectives)
    assert {event["schedule"] for event in collectives} == {schedule}
    return statistics.median(event["time_s"] for event in collectives)


def test_packed_trees_beat_the_best_ring_and_nothing_beats_the_limit(up: tuple[Testbed, WorkersClient], tmp_path: Path):
    bed, client = up
    rates = {link.edge: link.properties.rate_bps for link in bed.links()}
    known = Network(rates, bed.controller.view().routes)
    limit_s = allgather_limit_s(rates, bed.wan.dcs, SIZE_BYTES)
    with BandwidthService(tmp_path / "bandwidths.sock", {"oracle": lambda: known}) as service:
        took_s = {name: median_s(bed, client, tmp_path, service, name) for name in ("ring", "multiring", "trees")}
    assert min(took_s.values()) >= limit_s * (1 - MEASUREMENT_ERROR)
    assert took_s["ring"] / took_s["trees"] > 1.3
    assert took_s["ring"] / took_s["multiring"] > 1.3
