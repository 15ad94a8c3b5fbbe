"""An experiment: everything a run needs, resolved from its file and checked whole before anything starts.

Knows files, WANs, traces and faults; starts nothing and looks at no clock. The same file and seed give the same plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from controller.calm import CalmSettings
from controller.policies import make_policy
from controller.settings import ControllerSettings
from testbed.dynamics.faults import FaultSpec, crash_faults, fault_faults
from testbed.dynamics.timeline import Instant, capacities, timeline
from testbed.dynamics.tracefile import read_rows
from testbed.dynamics.traces import FileSpec, Row, TraceSpec, generate, random_stream, size_faults, trace_faults
from testbed.estimate import expected_collective_s
from testbed.experimentfile import Every, ExperimentSpec
from testbed.feed import FeedSettings
from testbed.fidelity import Tolerance
from testbed.ringagent import Agent, agent_faults
from topologies import yamlfile
from topologies.codec import wan_to_json
from topologies.errors import Fault, InputError
from topologies.model import Edge, Wan
from topologies.units import format_duration, format_size
from topologies.wanfile import builtin_files, load_wan, spec_faults, spec_to_wan
from topologies.yamlfile import Loaded
from workers.job import ELEMENT_BYTES

MAX_ARM_S = 24 * 3600.0
"""No arm takes longer than a day: beyond it a wrong unit is more likely than patience."""

MEASURED_LABEL = "capacity: measured by the counters of ports, learned where a link is full"
"""What every result says about capacities that no feed tells."""
MIN_TIMEOUT_S = 1.0

MEMORY_SHARE = 0.8
"""Of the machine's memory, what the shards of all ranks may take."""

ESTIMATED_OVER_S = 600.0
"""The length of trace that the time of a collective is estimated from."""


@dataclass(frozen=True)
class Arm:
    """Which loops act: the WAN controller's policy, and the ring agent every `reorder_every` collectives (0: never)."""

    name: str
    wan_policy: str
    reorder_every: int


@dataclass(frozen=True)
class Controller:
    """The WAN controller, where it has a policy: what it sees of demands and capacities, and when it moves a pair.

    `feed` says how its capacities reach it, unless `capacity` is measured.
    """

    policy: str
    demands: Literal["measured", "announced"]
    capacity: Literal["feed", "measured"]
    feed: FeedSettings
    stack: Literal["ryu", "os_ken"]
    tunnels: int
    margin: float
    period_s: float
    dwell_s: float
    moves: int
    move_every_s: float
    detours: bool | None

    def settings(self, policy: str) -> ControllerSettings:
        """What the controller's process is started with."""
        return ControllerSettings(
            policy=policy,
            period_s=self.period_s,
            tunnels=self.tunnels,
            margin=self.margin,
            dwell_s=self.dwell_s,
            moves=self.moves,
            move_every_s=self.move_every_s,
            demands=self.demands,
            capacity=self.capacity,
            stack=self.stack,
            detours=self.detours,
        )

    def labels(self) -> list[str]:
        """Path policy, demands and capacities: what a result cannot be read without."""
        demands = {
            "measured": "measured by the counters of ingress rules",
            "announced": "announced, the ring's order and bytes",
        }
        return [
            self.feed.label if self.capacity == "feed" else MEASURED_LABEL,
            f"paths: {self.policy} in the arms wan and joint",
            f"demands: {demands[self.demands]}",
        ]


@dataclass(frozen=True)
class Timeouts:
    """After how many seconds something counts as hanging."""

    start_s: float
    collective_s: float
    arm_s: float


@dataclass(frozen=True)
class BlockPlan:
    """One block: all arms under one seed, in the order in which they run. Blocks count from 1."""

    block: int
    seed: int
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Experiment:
    """A checked experiment. Times in seconds, sizes in bytes; `every_s` is None where collectives follow at once.

    `compute_s` is what each rank waits before each collective, for the accelerator's work that is not done here.
    `size_bytes` is what one rank contributes. `expected_arm_s` is how long the collectives of one arm take: exact where
    they are paced, else estimated for the static arm. `rows` are those of a trace of kind `file`, `text` the file.
    """

    name: str
    description: str
    wan: Wan
    trace: TraceSpec
    rows: tuple[Row, ...]
    faults: tuple[FaultSpec, ...]
    arms: tuple[Arm, ...]
    blocks: int
    seed: int
    size_bytes: int
    collectives: int
    warmup: int
    every_s: float | None
    compute_s: float
    initial_order: Literal["listed", "measured_once"]
    elastic: bool
    agent: Agent
    controller: Controller
    congestion_control: str
    tolerance: Tolerance
    timeouts: Timeouts
    expected_arm_s: float
    text: str

    def timeline(self, seed: int) -> tuple[Instant, ...]:
        """What happens to the network in every arm of the block with this seed, from second 0 of the arm on.

        Covers the longest that an arm may take; a trace file that is over by then keeps its last rates.
        """
        trace = self.trace
        if isinstance(trace, FileSpec) and not trace.repeat:
            trace = trace.model_copy(update={"hold": True})
        return timeline(self.wan, generate(trace, self.wan, seed, self.timeouts.arm_s, self.rows), self.faults)

    def peak_rates_bps(self) -> dict[Edge, float]:
        """The highest rate that each directed edge is set to in any block, while its arms take as long as expected."""
        peaks = dict.fromkeys(self.wan.edges, 0.0)
        for block in blocks_plan(self):
            for at_s, rates in capacities(self.wan, self.timeline(block.seed)):
                if at_s <= self.expected_arm_s:
                    peaks = {edge: max(peak, rates[edge]) for edge, peak in peaks.items()}
        return {edge: peak or self.wan.edges[edge].rate_bps for edge, peak in peaks.items()}

    def overridden(self, blocks: int | None = None, arms: Sequence[str] | None = None) -> Experiment:
        """The same experiment with fewer or more blocks, or some of its arms. InputError for an arm it lacks."""
        chosen = self.arms
        if arms is not None:
            by_name = {arm.name: arm for arm in self.arms}
            for name in arms:
                if name not in by_name:
                    remedy = f"choose among {', '.join(by_name)}"
                    raise InputError("this experiment has no such arm", place="--arms", value=name, remedy=remedy)
            chosen = tuple(by_name[name] for name in dict.fromkeys(arms))
        if blocks is not None and blocks < 1:
            raise InputError("there is at least one block", place="--blocks", value=blocks, remedy="give 1 or more")
        return replace(self, arms=chosen, blocks=self.blocks if blocks is None else blocks)

    def to_json(self) -> dict[str, Any]:
        """Every resolved value, for `manifest.json`."""
        resolved = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("rows", "text")}
        resolved |= {
            "wan": wan_to_json(self.wan),
            "dcs": list(self.wan.dcs),
            "trace": self.trace.model_dump(mode="json"),
            "faults": [fault.model_dump(mode="json", by_alias=True) for fault in self.faults],
            "arms": {arm.name: asdict(arm) for arm in self.arms},
        }
        for name in ("agent", "controller", "tolerance", "timeouts"):
            resolved[name] = asdict(resolved[name])
        return resolved

    def labels(self) -> list[str]:
        """What a reader of any result has to know about how it came about."""
        labels = self.controller.labels()
        reorder_every = max(arm.reorder_every for arm in self.arms)
        if reorder_every:
            labels.append(
                f"ring agent: every {reorder_every} collectives, bandwidths by {self.agent.source}, "
                f"policy {self.agent.policy}"
            )
        labels += self.agent.labels()
        pacing = "collectives back to back, so a slower arm meets more of the trace than a faster one"
        if self.every_s is not None:
            pacing = f"a collective every {self.every_s:g} s"
        if self.compute_s:
            pacing += f", after {self.compute_s:g} s that stand for the accelerators' work"
        return [
            *labels,
            f"ring order at the start: {self.initial_order.replace('_', ' ')}",
            f"WAN controller: period {self.controller.period_s:g} s, {self.controller.tunnels} tunnels a pair",
            f"moves: for good news after {self.controller.dwell_s:g} s; {self.controller.moves} of a pair at once, "
            f"and one more every {self.controller.move_every_s:g} s",
            f"pacing: {pacing}",
            f"TCP: {self.congestion_control}",
            *(["elastic: DCs whose worker dies are left out until it is back"] if self.elastic else []),
        ]


def load_experiment(path: Path, memory_bytes: int | None = None, *, elastic: bool = False) -> Experiment:
    """The experiment in a file. InputError lists everything that is wrong: in it, in its WAN, or between the two.

    `memory_bytes` is what the machine has, unless given. `elastic` makes it so whatever the file says.
    """
    text = yamlfile.read_text(path)
    memory_bytes = memory_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return read_experiment(text, path, memory_bytes, elastic=elastic)


def read_experiment(text: str, file: Path, memory_bytes: int, *, elastic: bool = False) -> Experiment:
    """As `load_experiment`, from text. Paths in it are relative to the folder of `file`."""
    loaded = yamlfile.parse(text, str(file))
    spec = yamlfile.validate(ExperimentSpec, loaded)
    elastic = elastic or spec.elastic
    wan = _wan(spec, loaded, file.parent)
    faults = [
        *_spec_faults(spec, wan, memory_bytes),
        *trace_faults(spec.trace, wan),
        *fault_faults(spec.faults, wan),
        *crash_faults(spec.faults, wan, elastic),
    ]
    if faults:
        raise loaded.error(faults)
    rows = read_rows(file.parent / spec.trace.path, wan) if isinstance(spec.trace, FileSpec) else ()
    every_s = spec.pacing.every if isinstance(spec.pacing, Every) else None
    _check_trace_size(spec, wan, rows, loaded, ESTIMATED_OVER_S)
    expected_arm_s = _expected_arm_s(spec, wan, rows, every_s)
    arm_s = spec.timeouts.arm or 60.0 + 4 * expected_arm_s
    faults = list(_length_faults(spec, wan, expected_arm_s, arm_s))
    if faults:
        raise loaded.error(faults)
    _check_trace_size(spec, wan, rows, loaded, arm_s)
    generate(spec.trace, wan, spec.seed, expected_arm_s, rows)  # Refuses a trace that ends before the run.
    return Experiment(
        name=spec.name,
        description=spec.description,
        wan=wan,
        trace=spec.trace,
        rows=rows,
        faults=tuple(spec.faults),
        arms=tuple(_arm(name, spec) for name in spec.arms),
        blocks=spec.blocks,
        seed=spec.seed,
        size_bytes=spec.payload,
        collectives=spec.collectives,
        warmup=spec.warmup,
        every_s=every_s,
        compute_s=spec.compute,
        initial_order=spec.initial_order,
        elastic=elastic,
        agent=Agent(spec.agent.source, spec.agent.policy, spec.agent.margin, spec.agent.schedule),
        controller=_controller(spec),
        congestion_control=spec.congestion_control,
        tolerance=Tolerance(**spec.tolerance.model_dump()),
        timeouts=Timeouts(spec.timeouts.start, spec.timeouts.collective, arm_s),
        expected_arm_s=expected_arm_s,
        text=text,
    )


def schema() -> dict[str, Any]:
    """JSON schema of the experiment file, for editors."""
    return ExperimentSpec.model_json_schema(by_alias=True)


def blocks_plan(experiment: Experiment) -> list[BlockPlan]:
    """Every block's seed and order of arms: the same for the same seed, whatever the count of blocks."""
    return [_block_plan(experiment, block) for block in range(1, experiment.blocks + 1)]


def _block_plan(experiment: Experiment, block: int) -> BlockPlan:
    stream = random_stream(experiment.seed, f"block {block}")
    seed = stream.getrandbits(32)
    return BlockPlan(block, seed, tuple(stream.sample(experiment.arms, len(experiment.arms))))


def _arm(name: str, spec: ExperimentSpec) -> Arm:
    policy = spec.controller.policy if name in ("wan", "joint") else "shortest"
    return Arm(name, policy, spec.reorder_every if name in ("ccl", "joint") else 0)


def _controller(spec: ExperimentSpec) -> Controller:
    feed = spec.feed
    return Controller(
        policy=spec.controller.policy,
        demands=spec.controller.demands,
        capacity=spec.capacity,
        feed=FeedSettings(feed.delay, feed.noise, feed.quantum or 0.0, feed.loss),
        stack=spec.controller.stack,
        tunnels=spec.controller.tunnels,
        margin=spec.controller.margin,
        period_s=spec.t_wan,
        dwell_s=spec.controller.dwell,
        moves=spec.controller.moves,
        move_every_s=spec.controller.move_every,
        detours=spec.controller.detours,
    )


def _wan(spec: ExperimentSpec, loaded: Loaded, folder: Path) -> Wan:
    if not isinstance(spec.wan, str):
        faults = spec_faults(spec.wan, ("wan",))
        if faults:
            raise loaded.error(faults)
        return spec_to_wan(spec.wan)
    is_name = spec.wan in builtin_files() or not Path(spec.wan).suffix
    try:
        return load_wan(spec.wan if is_name else folder / spec.wan)
    except InputError as error:
        raise loaded.error([Fault(("wan",), error.message, remedy=error.remedy)]) from error


def _spec_faults(spec: ExperimentSpec, wan: Wan, memory_bytes: int) -> Iterator[Fault]:
    """What is wrong between the values of the file, before a trace is generated."""
    if not spec.arms:
        yield Fault(("arms",), "there is at least one arm", remedy="give [static, wan, ccl, joint], or some of them")
    for index, name in enumerate(spec.arms):
        if spec.arms.index(name) < index:
            yield Fault(("arms", index), "this arm is there twice", name, "delete one of them")
    reorders = any(_arm(name, spec).reorder_every for name in spec.arms)
    if reorders and spec.reorder_every >= spec.collectives:
        remedy = f"give less than the {spec.collectives} collectives of an arm"
        yield Fault(("reorder_every",), "the ring agent would never act", spec.reorder_every, remedy)
    if spec.payload % ELEMENT_BYTES:
        remedy = "give a multiple of 4 bytes, as 8MiB"
        yield Fault(("payload",), "a payload is made of whole 32-bit elements", spec.payload, remedy)
    ranks = len(wan.dcs)
    needed = ranks * (ranks + 1) * spec.payload
    if needed > MEMORY_SHARE * memory_bytes:
        remedy = f"give at most {format_size(int(MEMORY_SHARE * memory_bytes / (ranks * (ranks + 1))))}"
        message = (
            f"{ranks} ranks that each hold {ranks} shards and their own need {format_size(needed)} of this machine's "
            f"{format_size(memory_bytes)}"
        )
        yield Fault(("payload",), message, spec.payload, remedy)
    yield from agent_faults(spec)
    yield from _controller_faults(spec)
    for name, timeout_s in spec.timeouts:
        if timeout_s is not None and timeout_s < MIN_TIMEOUT_S:
            remedy = "give 1s or more"
            yield Fault(("timeouts", name), "this is over before anything can be done", timeout_s, remedy)
    if not 0.01 <= spec.t_wan <= 86400:
        yield Fault(("t_wan",), "the WAN controller's period is out of range", spec.t_wan, "give 10ms to 24h")


def _check_trace_size(spec: ExperimentSpec, wan: Wan, rows: Sequence[Row], loaded: Loaded, over_s: float) -> None:
    faults = list(size_faults(spec.trace, wan, over_s, rows))
    if faults:
        raise loaded.error(faults)


def _controller_faults(spec: ExperimentSpec) -> Iterator[Fault]:
    """What the controller would refuse when it starts."""
    try:
        make_policy(spec.controller.policy, ControllerSettings())
    except InputError as error:
        yield Fault(("controller", "policy"), error.message.partition(" (got ")[0], error.value, error.remedy)
    try:
        CalmSettings(spec.controller.dwell, spec.controller.moves, spec.controller.move_every)
    except InputError as error:
        yield Fault(("controller",), error.message.partition(" (got ")[0], error.value, error.remedy)
    if spec.capacity == "measured" and spec.feed.model_fields_set:
        remedy = "leave `feed` out, or give `capacity: feed`"
        yield Fault(("feed",), "there is no feed where capacities are measured", remedy=remedy)


def _length_faults(spec: ExperimentSpec, wan: Wan, expected_arm_s: float, arm_s: float) -> Iterator[Fault]:
    """What is wrong once it is known how long an arm takes."""
    if expected_arm_s > MAX_ARM_S:
        message = f"one arm would take about {format_duration(expected_arm_s)}, and a day is the most"
        yield Fault(("collectives",), message, spec.collectives, "give fewer, a smaller payload, or higher rates")
    if expected_arm_s > arm_s:
        message = f"one arm takes about {format_duration(expected_arm_s)}, longer than this timeout"
        yield Fault(("timeouts", "arm"), message, spec.timeouts.arm, "give a longer one, or leave it out")
    yield from fault_faults(spec.faults, wan, expected_arm_s)


def _expected_arm_s(spec: ExperimentSpec, wan: Wan, rows: Sequence[Row], every_s: float | None) -> float:
    if every_s is not None:
        return spec.collectives * max(every_s, spec.compute)
    held = spec.trace.model_copy(update={"hold": True}) if isinstance(spec.trace, FileSpec) else spec.trace
    changes = generate(held, wan, spec.seed, ESTIMATED_OVER_S, rows)
    collective_s = expected_collective_s(wan, changes, spec.payload, ESTIMATED_OVER_S)
    return spec.collectives * (spec.compute + collective_s)
