"""Figures of all collectives on mesh4 at 100 Mbit/s: against the limit of their schedule, stock gloo, and each other.

A size is what nccl-tests calls one: 8 MiB of all_gather are four shards of 2 MiB.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from benchmarks import promises, schedules
from benchmarks.collectives import RATE_BPS, job_on, workers_of
from benchmarks.figure import Figure, Reach, figure, figures_of
from benchmarks.virtual import in_virtual_time
from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.perf.rows import Row
from testbed.perf.session import measure as measure_rows
from testbed.perf.session import plan_for
from topologies.wanfile import load_wan
from workers.backend.cutting import CHUNK_BYTES
from workers.client import Event, WorkersClient
from workers.job import Agent
from workers.perfjob import COLLECTIVES, GLOO, RING, Perf

MIB = 2**20
BULK_BYTES, SMALL_BYTES = 8 * MIB, 4 * 2**10
BULK_ITERATIONS, SMALL_ITERATIONS = 7, 200
SWITCHES = 10

HOPS = {
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_to_all": lambda n: 1 / n,
    "broadcast": lambda n: 1.0,
}
"""Of the size, what the busiest link of the schedule carries: a ring's, or for all_to_all that of a pair."""


GLOO_REACH = {"reduce_scatter": Reach(at_most=0.55), "broadcast": Reach()}
"""Of the others, whose links are as full as gloo's: not slower than that, in hundredths."""


@contextmanager
def _mesh() -> Iterator[tuple[Testbed, WorkersClient]]:
    wan = load_wan("mesh4")
    with Testbed(wan, controller=ControllerSettings(policy="shortest")) as bed, workers_of(bed) as workers:
        for link in bed.wan.links:
            bed.shape(link, rate_bps=RATE_BPS)
        yield bed, workers


def _row(bed: Testbed, workers: WorkersClient, collective: str, size_bytes: int, iterations: int) -> Row:
    rows: list[Row] = []
    perf = Perf(collective, (size_bytes,), iterations=iterations, warmup=2, implementations=(RING, GLOO))
    measure_rows(bed, workers, plan_for(bed, perf), rows.append)
    return rows[0]


def collectives_on_mesh4() -> Iterator[Figure]:
    """Every collective at 8 MiB and 4 KiB on mesh4, taking turns with stock gloo's; and a switch of the order."""
    with _mesh() as (bed, workers):
        for collective in COLLECTIVES:
            row = _row(bed, workers, collective, BULK_BYTES, BULK_ITERATIONS)
            least_s = HOPS[collective](row.ranks) * 8 * row.size_bytes / RATE_BPS
            against = "limit of its schedule"
            reach = Reach(at_most=1.04) if collective != "broadcast" else Reach()
            yield figure(f"{collective}, mesh4, 8 MiB", row.ours.median_s / least_s, "", against, reach)
            more_mib = (row.ours.memory_bytes - row.gloo.memory_bytes) / MIB
            window = Reach(at_most=(BULK_BYTES / row.ranks + CHUNK_BYTES) / MIB)
            yield figure(f"{collective}, mesh4, 8 MiB, memory of a rank", more_mib, "MiB", "above stock gloo's", window)
            reach = GLOO_REACH.get(collective, Reach(at_most=1.0, decimals=2))
            yield figure(f"{collective}, mesh4, 8 MiB, against gloo", row.against_gloo, "", "stock gloo", reach)
        for collective in COLLECTIVES:
            row = _row(bed, workers, collective, SMALL_BYTES, SMALL_ITERATIONS)
            label = f"{collective}, mesh4, 4 KiB, against gloo"
            yield figure(label, row.against_gloo, "", "stock gloo", Reach(at_most=1.0))
        yield from _order_switch(bed, workers)


def _order_switch(bed: Testbed, workers: WorkersClient) -> Iterator[Figure]:
    """AllGathers whose order changes before every second one, on a network that does not change."""
    took_s: dict[int, float] = {}
    epochs: dict[int, int] = {}

    def keep(event: Event) -> None:
        if event["event"] == "collective":
            took_s[event["index"]], epochs[event["index"]] = event["time_s"], event["epoch"]

    agent = Agent(every=2, source="probe", policy="random", margin=0.0)
    job = job_on(bed, BULK_BYTES // len(bed.wan.dcs), collectives=2 * SWITCHES, warmup=2, agent=agent)
    workers.start(job)
    workers.run(keep)
    ratios = [took_s[i] / took_s[i - 1] for i in sorted(took_s)[1:] if epochs[i] != epochs[i - 1]]
    label = f"order switch, next AllGather's time, median of {len(ratios)}"
    yield figure(label, statistics.median(ratios), "", "the one before", Reach(at_most=1.02))


PARTS: tuple[Callable[[], Iterable[Figure]], ...] = (
    collectives_on_mesh4,
    in_virtual_time(collectives_on_mesh4),
    schedules.schedules_against_the_best_ring,
    promises.promised_and_kept,
    schedules.solver_times,
    schedules.isolated_promises,
)


def measure(say: Callable[[str], None]) -> Iterator[Figure]:
    """Every collective against limits and stock gloo, schedules beyond the ring, the solver; about 10 minutes."""
    yield from figures_of(PARTS, say)
