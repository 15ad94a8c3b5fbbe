"""Brings a WAN up and runs one collective at every size on it; the rows come as they are measured.

Nothing on the WAN changes meanwhile, so that each row has one limit. Before the rows every link is loaded at once, and
during them CPUs and drops are watched, as in a run: figures of a machine that was too slow are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.settings import ControllerSettings
from testbed import machine
from testbed.bed import Testbed
from testbed.emulation.programs import require
from testbed.emulation.qdisc import BURST_S
from testbed.fidelity import Goodput, Tolerance, Verdict, combine, judge_arm, judge_links
from testbed.fidelity_sampling import CpuSampler
from testbed.launching import blaming, launcher
from testbed.measure import carried, pinned_to_edges
from testbed.perf.rows import Row, row_of
from testbed.progress import Progress
from topologies.errors import InputError, RingroadError, did_you_mean
from topologies.model import Edge, Wan
from workers import perfjob
from workers.client import WorkersClient
from workers.job import Job, Rank
from workers.limits import limit_s
from workers.network import Network, network_of, reversed_network
from workers.perfjob import Perf
from workers.policies.linkrings import best_ring
from workers.schedules.choice import AUTO, PLANNERS, planned
from workers.schedules.forest import forest_to_json
from workers.schedules.packing import NoSchedule

GATE_S = 2.0
CHUNK_BYTES = 128 * 2**10
"""Of planned schedules."""

TIMEOUT_S = 600.0
"""Without any progress in one collective, gloo gives up."""

SCHEDULES = (*PLANNERS, AUTO)
LISTED, BEST = "listed", "best"
SLACK = 0.01
"""By which clocks that are read around system calls may be off."""


@dataclass(frozen=True)
class Request:
    """`order` of the ring: `listed`, `best` (for these links and routes), or names of DCs with commas."""

    wan: Wan
    perf: Perf
    order: str = LISTED
    gated: bool = True


@dataclass
class Result:
    """What there is so far. `complete` once every size is measured; `verdict` judges what was looked at."""

    request: Request
    rows: list[Row] = field(default_factory=list)
    order: tuple[str, ...] = ()
    schedule: str = ""
    verdict: Verdict = field(default_factory=lambda: Verdict(True))
    complete: bool = False

    def as_json(self) -> dict[str, Any]:
        """Rows with every iteration, and what a reader needs to repeat or to doubt them."""
        perf, wan = self.request.perf, self.request.wan
        return {
            "collective": perf.collective,
            "wan": wan.name,
            "dcs": list(wan.dcs),
            "schedule": self.schedule,
            "order": list(self.order),
            "iterations": perf.iterations,
            "warmup": perf.warmup,
            "rows": [row.as_json() for row in self.rows],
            "complete": self.complete,
            "gated": self.request.gated,
            "trustworthy": self.verdict.trustworthy if self.complete else None,
            "reasons": list(self.verdict.reasons),
            "machine": {**machine.describe(), "ringroad": machine.commit()},
        }


def check(request: Request) -> None:
    """InputError before anything starts: sizes, ranks, names, memory."""
    perf, dcs = request.perf, request.wan.dcs
    if perf.schedule not in SCHEDULES:
        remedy = did_you_mean(perf.schedule, list(SCHEDULES))
        raise InputError("no such schedule", place="--schedule", value=perf.schedule, remedy=remedy)
    perfjob.check(perf, len(dcs))
    named = request.order.split(",")
    if request.order not in (LISTED, BEST) and sorted(named) != sorted(dcs):
        remedy = f"give {LISTED}, {BEST}, or every DC once: {','.join(dcs)}"
        raise InputError("not every DC once", place="--order", value=request.order, remedy=remedy)
    held = len(dcs) * (len(dcs) + 2) * max(perf.sizes)
    memory = int(machine.describe()["memory_bytes"])
    if held > 0.7 * memory:
        remedy = f"end below {int(0.7 * memory / len(dcs) / (len(dcs) + 2)) // 2**20}M"
        raise InputError("more than this machine's memory holds", place="-e", value=max(perf.sizes), remedy=remedy)


def run_perf(request: Request, progress: Progress, on_row: Callable[[Row], None], result: Result) -> None:
    """Fill `result`; `on_row` gets each row once it is measured. Needs root; blocks until all sizes are done.

    RingroadError names what died or failed; `result` then holds the rows that there were.
    """
    check(request)
    require("mnexec", *(["iperf3"] if request.gated else []))
    progress.phase("bringing the WAN up")
    with Testbed(request.wan, controller=ControllerSettings(policy="shortest")) as bed:
        socket = bed.state / "workers.sock"
        with (
            launcher(bed, socket, bed.log_folder / "workers.log") as process,
            blaming(bed, process, socket),
        ):
            gate = _gate(bed, progress) if request.gated else Verdict(True)
            drops = bed.stray_drops()
            plan = plan_for(bed, request.perf, request.order)
            result.schedule = plan.schedule
            result.order = tuple(bed.wan.dcs[rank] for rank in plan.order)
            progress.begin(plan.perf.rounds)
            progress.phase(f"{plan.perf.collective} on {request.wan.name}")

            def keep(row: Row) -> None:
                result.rows.append(row)
                on_row(row)

            with CpuSampler() as cpu, WorkersClient(socket) as workers:
                measure(bed, workers, plan, keep, progress.advance)
            stray = {place: count - drops.get(place, 0) for place, count in bed.stray_drops().items()}
            arm = judge_arm(cpu.samples, stray, Tolerance())
            result.verdict = _with_impossible(combine(gate, {"the rows": arm}), result.rows)
    result.complete = True


def _gate(bed: Testbed, progress: Progress) -> Verdict:
    progress.phase("fidelity gate: loading every link at once")
    with pinned_to_edges(bed):
        measured = carried(bed, GATE_S)
    return judge_links([Goodput(edge, m.rate_bps, m.delivered_bps) for edge, m in measured.items()], Tolerance())


@dataclass(frozen=True)
class Plan:
    """What runs on the links as they are: `perf` with its forests, the ring order by rank, the schedule chosen."""

    perf: Perf
    order: tuple[int, ...]
    schedule: str
    rates_bps: Mapping[Edge, float]


def plan_for(bed: Testbed, perf: Perf, order: str = LISTED) -> Plan:
    """Look at links and routes of the testbed and plan for them. InputError where the schedule cannot be planned."""
    network = network_on(bed)
    ranks = _order(order, network, bed.wan.dcs)
    planned_perf, schedule = _planned(perf, network, ranks)
    return Plan(planned_perf, ranks, schedule, network.capacities_bps)


def network_on(bed: Testbed) -> Network:
    """What the kernel holds now, and the routes in force, by rank."""
    rates = {link.edge: link.properties.rate_bps for link in bed.links()}
    assert bed.controller is not None
    delays_s = {edge: properties.delay_s for edge, properties in bed.wan.edges.items()}
    return network_of(rates, bed.controller.view().routes, bed.wan.dcs, delays_s)


def measure(
    bed: Testbed,
    workers: WorkersClient,
    plan: Plan,
    on_row: Callable[[Row], None],
    on_round: Callable[[], None] = lambda: None,
) -> None:
    """Run every size; `on_row` gets each row when it is done. Blocks until then. WorkerFailed if a rank dies."""
    perf, dcs = plan.perf, bed.wan.dcs
    job = Job(
        ranks=tuple(Rank(dc, bed.dc(dc).netns_pid) for dc in dcs),
        size_bytes=perfjob.ALIGNMENT_BYTES,
        log_folder=str(bed.log_folder.resolve()),
        collectives=perf.rounds,
        warmup=0,
        chunk_bytes=CHUNK_BYTES,
        start_order=plan.order,
        timeout_s=TIMEOUT_S,
        perf=perf,
    )
    records: list[dict[str, Any]] = []

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] != "perf":
            return
        records.append(event)
        on_round()
        if event["iteration"] == perf.iterations - 1:
            on_row(_row(perf, plan.rates_bps, dcs, event["size_bytes"], records))
            records.clear()

    workers.start(job)
    if not workers.run(on_event):
        raise RingroadError("the workers were stopped before the last size")


def _row(
    perf: Perf, rates: Mapping[Edge, float], dcs: tuple[str, ...], size_bytes: int, records: list[dict[str, Any]]
) -> Row:
    element = perfjob.ELEMENT_BYTES[perf.datatype]
    planned = perf.forests is not None
    count = perfjob.count_of(perf.collective, size_bytes, len(dcs), element, planned=planned)
    limit = limit_s(perf.collective, rates, dcs, count * element, dcs[perf.root])
    return row_of(perf, len(dcs), count, limit, records)


def _order(asked: str, network: Network, dcs: tuple[str, ...]) -> tuple[int, ...]:
    listed = tuple(range(len(dcs)))
    if asked == LISTED:
        return listed
    if asked == BEST:
        return best_ring(network, len(dcs), listed).order
    return tuple(dcs.index(name) for name in asked.split(","))


def _planned(perf: Perf, network: Network, order: tuple[int, ...]) -> tuple[Perf, str]:
    """With the forests of its schedule, planned for the largest size: gathers on the network, sums on its reverse."""
    if perf.schedule == "ring":
        return perf, "ring"
    element = perfjob.ELEMENT_BYTES[perf.datatype]
    count = perfjob.count_of(perf.collective, max(perf.sizes), len(order), element, planned=True)
    shard_bytes = count * element // (1 if perf.collective in perfjob.SHARDED else len(order))
    try:
        away = planned(perf.schedule, network, order, shard_bytes, CHUNK_BYTES)
        back = tuple(reversed(order))
        towards = planned(perf.schedule, reversed_network(network), back, shard_bytes, CHUNK_BYTES)
    except NoSchedule as error:
        remedy = "every DC has to reach every other"
        raise InputError(str(error), place="--schedule", value=perf.schedule, remedy=remedy) from error
    names = {"all_gather": away.name, "reduce_scatter": towards.name}
    both = away.name if away.name == towards.name else f"{towards.name} + {away.name}"
    forests = (forest_to_json(away.forest), forest_to_json(towards.forest))
    return replace(perf, forests=forests), names.get(perf.collective, both)


def _with_impossible(verdict: Verdict, rows: list[Row]) -> Verdict:
    """A collective that was faster than its limit was not on links of these rates.

    After a pause a link lets `BURST_S` of its rate through at once: by so much a collective may end earlier.
    """
    reasons = list(verdict.reasons)
    for row in rows:
        for name, times in (("", row.ours), ("stock gloo's ", row.gloo)):
            if times is not None and min(times.times_s) < row.limit_s * (1 - SLACK) - BURST_S:
                took = f"{min(times.times_s) * 1e6:.0f} us, limit {row.limit_s * 1e6:.0f} us"
                reasons.append(f"{name}{row.size_bytes} B: faster than the links allow: {took}")
    return replace(verdict, trustworthy=not reasons, reasons=tuple(reasons))


def sizes_between(least: int, most: int, factor: int) -> tuple[int, ...]:
    """From `least` by `factor` up to `most` bytes. InputError, naming the option, where that is no series."""
    if least < 1:
        raise InputError("out of range", place="-b", value=least, remedy="give at least 1 byte")
    if most < least:
        raise InputError("below the first size", place="-e", value=most, remedy=f"give at least {least}")
    if factor < 2:
        raise InputError("out of range", place="-f", value=factor, remedy="give a whole number of at least 2")
    sizes = [least]
    while sizes[-1] * factor <= most:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)
