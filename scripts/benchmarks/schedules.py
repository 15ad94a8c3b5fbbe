"""Figures of the schedules beyond one ring: six DCs, every directed link another rate, planned against the best ring.

The rates are drawn once from `SEED`, evenly from 20 to 100 Mbit/s per direction, over the links of `six`.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.collectives import job_on, workers_of
from benchmarks.figure import Figure, Reach, figure
from benchmarks.randomwans import sparse_network
from controller.settings import ControllerSettings
from testbed.bandwidths import BandwidthService, Network
from testbed.bed import Testbed
from topologies import Edge, EdgeProperties, Wan
from topologies.wanfile import load_wan
from workers.client import Event, WorkersClient
from workers.job import Agent
from workers.limits import allgather_limit_s
from workers.network import bandwidths, network_of, ring_bps
from workers.policies.bottleneck import best_ring as best_of_pairs
from workers.policies.linkrings import best_ring
from workers.policies.view import bottleneck_bps
from workers.schedules.choice import compared

SEED = 1
LOWEST_BPS, HIGHEST_BPS = 20e6, 100e6
SIZE_BYTES = 8 * 2**20
CHUNK_BYTES = 128 * 2**10
COLLECTIVES = 3
SCHEDULES = ("ring", "bidirectional", "multiring", "trees")


@dataclass(frozen=True)
class Achieved:
    """Of one schedule: seconds predicted, seconds taken (median), and the limit of any AllGather on these links."""

    schedule: str
    predicted_s: float
    took_s: float
    limit_s: float

    @property
    def of_limit(self) -> float:
        """1: nothing could be faster."""
        return self.limit_s / self.took_s


def drawn_rates(wan: Wan, seed: int = SEED) -> dict[Edge, float]:
    """The rate of every directed edge."""
    draw = random.Random(seed)
    return {edge: draw.uniform(LOWEST_BPS, HIGHEST_BPS) for edge in wan.edges}


def achieved_schedules(seed: int = SEED, names: Sequence[str] = SCHEDULES) -> list[Achieved]:
    """Run each schedule on the emulated WAN of that draw; `ring` takes the best single ring on these links."""
    wan = load_wan("six")
    rates = drawn_rates(wan, seed)
    limit_s = allgather_limit_s(rates, wan.dcs, SIZE_BYTES)
    with (
        Testbed(wan, controller=ControllerSettings(policy="shortest")) as bed,
        workers_of(bed) as workers,
    ):
        bed.shape_many({edge: EdgeProperties(rate) for edge, rate in rates.items()})
        known = Network(rates, bed.controller.view().routes)
        network = network_of(known.capacities, known.routes, wan.dcs)
        order = best_ring(network, len(wan.dcs), tuple(range(len(wan.dcs)))).order
        foretold = {p.name: p.time_s for p in compared(network, order, SIZE_BYTES, CHUNK_BYTES, names)}
        with BandwidthService(bed.state / "bandwidths.sock", {"oracle": lambda: known}) as service:
            took = {name: _took_s(bed, workers, service, name) for name in names}
    return [Achieved(name, foretold[name], took[name], limit_s) for name in names]


def _took_s(bed: Testbed, workers: WorkersClient, service: BandwidthService, schedule: str) -> float:
    took: list[float] = []

    def keep(event: Event) -> None:
        if event["event"] == "collective":
            took.append(event["end"] - event["start"])

    job = job_on(
        bed,
        SIZE_BYTES,
        chunk_bytes=CHUNK_BYTES,
        collectives=COLLECTIVES,
        schedule=schedule,
        initial_order="measured_once",
        agent=Agent(source="oracle", policy="shared", margin=0.0),
        bandwidth_socket=str(service.path),
    )
    workers.start(job)
    workers.run(keep)
    return statistics.median(took)


def schedules_against_the_best_ring() -> Iterator[Figure]:
    """AllGather of 8 MiB per rank: the best single ring, several rings, packed trees, and the limit."""
    results = {each.schedule: each for each in achieved_schedules()}
    ring_s = results["ring"].took_s
    for name, each in results.items():
        foretold = f"predicted {each.predicted_s:.2f} s, limit {each.limit_s:.2f} s"
        yield figure(f"{name}, six, 20–100 Mbit/s, 8 MiB per rank", each.took_s, "s", foretold, Reach())
    for name in ("multiring", "trees"):
        label = f"{name} against the best ring, six, 20–100 Mbit/s"
        yield figure(label, ring_s / results[name].took_s, "", "best single ring", Reach(at_least=1.5))
    best = max(results.values(), key=lambda each: each.of_limit)
    yield figure(f"{best.schedule}, part of the limit reached", best.of_limit, "", "limit", Reach(at_least=0.85))


def solver_times() -> Iterator[Figure]:
    """The `shared` ring on sparse random WANs: the longest of five searches (CPU time), proven or with its gap."""
    best_ring(sparse_network(9, 0), 9, tuple(range(9)))  # imports
    for ranks, most_s in ((16, 0.2), (32, 1.0), (64, 2.0)):
        took, gaps = [], []
        for seed in range(5):
            network = sparse_network(ranks, seed)
            began = time.process_time()
            gaps.append(best_ring(network, ranks, tuple(range(ranks))).gap)
            took.append(time.process_time() - began)
        unproven = f", gap {max(gaps):.1%}" if max(gaps) else ", all proven"
        yield figure(f"best shared ring, {ranks} ranks{unproven}", max(took), "s", "nothing", Reach(at_most=most_s))


@dataclass(frozen=True)
class Promise:
    """Over many WANs: what isolated probes promise ÷ what the ring gets, and that ÷ the best ring on shared links."""

    dcs: int
    transit: int
    median_promised: float
    worst_promised: float
    median_of_best: float
    worst_of_best: float


def promises(wans: int = 60) -> list[Promise]:
    """How far pairwise bandwidths, exact but taken one pair at a time, mislead: by count of DCs and transit sites."""
    found = []
    for dcs, transit in ((6, 0), (8, 4), (12, 8), (16, 16)):
        promised, of_best = [], []
        for seed in range(wans):
            network, listed = sparse_network(dcs, seed, transit, neighbours=2), tuple(range(dcs))
            pairs = bandwidths(network, dcs)
            ring = best_of_pairs(pairs, listed)
            promised.append(bottleneck_bps(pairs, ring) / ring_bps(network, ring))
            of_best.append(ring_bps(network, ring) / best_ring(network, dcs, listed).rate_bps)
        medians = statistics.median(promised), statistics.median(of_best)
        found.append(Promise(dcs, transit, medians[0], max(promised), medians[1], min(of_best)))
    return found


def isolated_promises() -> Iterator[Figure]:
    """What exact pairwise bandwidths promise where ring edges share links, against what the ring then gets."""
    for each in promises():
        where = f"{each.dcs} DCs, {each.transit} transit sites"
        label = f"isolated probes' promise, {where}, median (worst {each.worst_promised:.1f})"
        yield figure(label, each.median_promised, "", "what the ring gets", Reach())
        label = f"ring by isolated probes, {where}, median (worst {each.worst_of_best:.2f})"
        yield figure(label, each.median_of_best, "", "best ring on shared links", Reach())
