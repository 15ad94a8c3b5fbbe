"""Collectives measured on an emulated WAN: none beats its limit, and each takes the direction that is fast."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.emulation.qdisc import BURST_S
from testbed.launching import launcher
from testbed.perf.rows import Row
from testbed.perf.session import SLACK, measure, plan_for
from topologies import EdgeProperties
from topologies.builtins import builtin
from workers.client import WorkersClient
from workers.perfjob import COLLECTIVES, GLOO, PLANNABLE, RING, Perf

pytestmark = pytest.mark.emulated

MIB = 2**20


@pytest.fixture(scope="module")
def up() -> Iterator[tuple[Testbed, WorkersClient]]:
    with Testbed(builtin("mesh4"), controller=ControllerSettings(policy="shortest")) as bed:
        socket = bed.state / "workers.sock"
        with launcher(bed, socket, bed.log_folder / "workers.log"), WorkersClient(socket) as client:
            yield bed, client


def rows(bed: Testbed, client: WorkersClient, perf: Perf, order: str = "listed") -> list[Row]:
    found: list[Row] = []
    measure(bed, client, plan_for(bed, perf, order), found.append)
    return found


@pytest.mark.parametrize(
    ("collective", "schedule"), [*((c, "ring") for c in COLLECTIVES), *((c, "trees") for c in sorted(PLANNABLE))]
)
def test_no_collective_beats_its_limit_and_every_element_is_right(
    up: tuple[Testbed, WorkersClient], collective: str, schedule: str
):
    implementations = (RING, GLOO) if schedule == "ring" else (RING,)
    perf = Perf(collective, (MIB,), iterations=3, implementations=implementations, schedule=schedule)
    (row,) = rows(*up, perf)
    for times in filter(None, (row.ours, row.gloo)):
        assert times.wrong == 0
        # what a link lets through at once after a pause, and clocks read around system calls
        assert min(times.times_s) >= row.limit_s * (1 - SLACK) - BURST_S
    assert 0 < row.limit_s < row.ours.mean_s * (1 + SLACK) + BURST_S


def test_every_collective_takes_the_direction_in_which_links_are_fast(up: tuple[Testbed, WorkersClient]):
    bed, _ = up
    # given links of 80 Mbit/s along one ring and of 20 against it and across
    dcs, ring = bed.wan.dcs, (0, 2, 1, 3)
    fast = {(dcs[a], dcs[b]) for a, b in zip(ring, (*ring[1:], ring[0]), strict=True)}
    bed.shape_many({edge: EdgeProperties(80e6 if edge in fast else 20e6) for edge in bed.wan.edges})
    # then the best ring is that one, and all that go round a ring go round it: 3/4 of 1 MiB at 80 Mbit/s, or twice
    for collective, hops in (("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_reduce", 1.5)):
        (row,) = rows(*up, Perf(collective, (MIB,), iterations=3), order="best")
        assert row.ours.median_s < 2 * hops * 8 * MIB / 80e6, collective
    bed.reset()
