"""One arm of one block: the same history of the WAN, one pair of control loops, and what its collectives took.

Expects a testbed that is up and a launcher that listens; leaves both ready for the next arm.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controller.client import ControllerClient, EventStream
from testbed.bandwidths import BandwidthService, Network
from testbed.bed import Testbed
from testbed.dynamics.player import Player
from testbed.dynamics.timeline import Instant, capacities
from testbed.experiment import Arm, BlockPlan, Experiment
from testbed.fidelity import Verdict, judge_arm
from testbed.fidelity_sampling import CpuSampler
from testbed.runfolder import RunFolder
from topologies.errors import RingroadError
from topologies.model import Edge
from workers.client import WorkersClient
from workers.job import Agent, BackToBack, Every, Job, Rank
from workers.limits import allgather_limit_over_time_s, allgather_limit_s, limit_fraction

Order = tuple[int, ...]
"""Ranks in the order of a ring."""

LEAD_S = 0.25
"""From the decision to start until second 0 of the trace, so that every rank and the player hear of it in time."""


FORESEEN_S = 120.0
"""How far the oracle tells the future."""


class ArmTimeout(RingroadError):
    """An arm took longer than its limit."""


@dataclass(frozen=True)
class ArmSetting:
    """What an arm runs on, and where its records go. `on_collective` is told of each finished one."""

    bed: Testbed
    experiment: Experiment
    folder: RunFolder
    workers_socket: Path
    on_collective: Callable[[], None]


def run_arm(setting: ArmSetting, block: BlockPlan, arm: Arm, start_order: Order | None = None) -> Verdict:
    """Run one arm and append its records, last the line in `arms.jsonl`. Blocks until its collectives are done.

    The ring begins as listed, or with `start_order`. The verdict says whether the machine kept up. WorkerFailed if a
    worker dies, ArmTimeout after the arm's limit, WireError if the controller or the launcher is gone (the runner then
    knows whose death it was).
    """
    bed, experiment, folder = setting.bed, setting.experiment, setting.folder
    instants = experiment.timeline(block.seed)

    def record(kind: str, entry: dict[str, Any]) -> None:
        folder.append(block.block, arm.name, kind, entry)

    bed.reset(block.seed)
    bed.controller.reset(arm.wan_policy, experiment.controller.period_s)
    socket = bed.state / "bandwidths.sock"
    trace = Trace(capacities(bed.wan, instants))
    with (
        network_sources(bed, trace) as sources,
        BandwidthService(socket, sources),
        WorkersClient(setting.workers_socket) as workers,
        journal(bed, record, lambda _: workers.stop()),
    ):
        if experiment.controller.demands == "announced":
            announce(bed, experiment, start_order or range(len(bed.wan.dcs)))
        job = replace(job_of(setting, block, arm), start_order=start_order)

        def on_membership(event: dict[str, Any]) -> None:
            if experiment.controller.demands == "announced":
                announce(bed, experiment, event["order"])
            record("memberships", event)

        player = Player(
            instants,
            bed.wan,
            bed,
            record=record,
            crash=workers.crash,
            restart=workers.restart,
            failed=lambda _: workers.stop(),
        )
        player.prepare()
        with starting(setting, workers):
            workers.start(job, on_membership)
        drops = bed.stray_drops()
        start_at = time.monotonic() + LEAD_S
        trace.started_at = start_at
        limits = _Limits(bed, instants, experiment, start_at)

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "collective":
                record("collectives", limits.added(event))
                setting.on_collective()
            elif event["event"] == "ring_change":
                if event["changed"] and experiment.controller.demands == "announced":
                    announce(bed, experiment, event["to"])
                record("ring_changes", limits.beside(event))
            elif event["event"] == "membership":
                on_membership(event)

        late = ArmTimeout(
            f"block {block.block}, {arm.name}: not done after {experiment.timeouts.arm_s:g} s",
            "give `timeouts: {arm: …}` more, or fewer collectives; `ringroad report` shows how far it came",
        )
        with CpuSampler() as cpu, _limited(experiment.timeouts.arm_s, workers, late):
            player.start(start_at)
            try:
                done = workers.run(on_event, start_at=start_at)
            finally:
                player.stop()
    if not done:
        raise RingroadError(f"block {block.block}, {arm.name} was stopped before its last collective")
    stray = {place: count - drops.get(place, 0) for place, count in bed.stray_drops().items()}
    verdict = judge_arm(cpu.samples, stray, experiment.tolerance)
    folder.append_arm(
        {
            "block": block.block,
            "arm": arm.name,
            "seed": block.seed,
            "started_at": start_at,
            "ended_at": time.monotonic(),
            "verdict": verdict,
        }
    )
    return verdict


def job_of(setting: ArmSetting, block: BlockPlan, arm: Arm) -> Job:
    """What the workers are asked to do in this arm."""
    experiment = setting.experiment
    logs = setting.folder.logs / f"block{block.block}-{arm.name}"
    logs.mkdir(parents=True, exist_ok=True)
    return Job(
        ranks=tuple(Rank(dc, setting.bed.dc(dc).netns_pid) for dc in setting.bed.wan.dcs),
        size_bytes=experiment.size_bytes,
        log_folder=str(logs.resolve()),
        collectives=experiment.collectives,
        warmup=experiment.warmup,
        compute_s=experiment.compute_s,
        pacing=BackToBack() if experiment.every_s is None else Every(experiment.every_s),
        agent=Agent(
            every=arm.reorder_every,
            source=experiment.agent.source,
            policy=experiment.agent.policy,
            margin=experiment.agent.margin,
        ),
        bandwidth_socket=str(setting.bed.state / "bandwidths.sock"),
        schedule=experiment.agent.schedule_in(arm.reorder_every),
        seed=block.seed,
        timeout_s=experiment.timeouts.collective_s,
        elastic=experiment.elastic,
    )


def announce(bed: Testbed, experiment: Experiment, order: Sequence[int]) -> None:
    """Tell the controller who sends from now on: each rank to the next in the ring, all shards but one a collective."""
    names = [bed.wan.dcs[rank] for rank in order]
    size_bytes = (len(names) - 1) * experiment.size_bytes
    bed.controller.demands(dict.fromkeys(zip(names, names[1:] + names[:1], strict=True), size_bytes), time.monotonic())


class _Limits:
    """Adds to each collective how fast its members could have been at best on the WAN as it was while it ran."""

    def __init__(self, bed: Testbed, instants: Sequence[Instant], experiment: Experiment, start_at: float) -> None:
        self._segments = [(start_at + at_s, rates) for at_s, rates in capacities(bed.wan, instants)]
        self._dcs, self._size_bytes = bed.wan.dcs, experiment.size_bytes

    def added(self, collective: dict[str, Any]) -> dict[str, Any]:
        start = max(collective["start"], self._segments[0][0])
        members = [self._dcs[rank] for rank in collective["members"]]
        limit_s = allgather_limit_over_time_s(self._segments, members, self._size_bytes, start)
        return collective | {"limit_s": limit_s, "limit_fraction": limit_fraction(limit_s, collective["time_s"])}

    def beside(self, ring_change: dict[str, Any]) -> dict[str, Any]:
        """With the highest rate at which every shard can reach all others on the links as they are then."""
        at = ring_change["started_at"]
        now = [rates for since, rates in self._segments if since <= at] or [self._segments[0][1]]
        members = [self._dcs[rank] for rank in ring_change["members"]]
        limit_s = allgather_limit_s(now[-1], members, self._size_bytes)
        return ring_change | {"limit_bps": 8 * self._size_bytes / limit_s}


@dataclass
class Trace:
    """What the links will carry, by seconds from `started_at` on; nothing is known before the arm starts."""

    segments: Sequence[tuple[float, Mapping[Edge, float]]]
    started_at: float | None = None

    def future(self, now: float) -> list[tuple[float, Mapping[Edge, float]]]:
        """From `now` until the horizon, by seconds from `now`, the first at 0."""
        if self.started_at is None:
            return []
        shifted = [(self.started_at + at_s - now, rates) for at_s, rates in self.segments]
        present = max((index for index, (at_s, _) in enumerate(shifted) if at_s <= 0), default=0)
        return [(max(0.0, at_s), rates) for at_s, rates in shifted[present:] if at_s <= FORESEEN_S]


@contextmanager
def network_sources(bed: Testbed, trace: Trace) -> Iterator[dict[str, Callable[[], Network]]]:
    """What ring agents can ask: the controller's view, and what the kernel holds on the routes that are in force.

    The oracle also tells what the trace will do.
    """
    delays_s = {edge: properties.delay_s for edge, properties in bed.wan.edges.items()}
    with ControllerClient(bed.state / "controller.sock") as controller:

        def feed() -> Network:
            view = controller.view()
            rates = {e: 0.0 if e in view.down else rate for e, rate in view.capacities_bps.items()}
            return Network(rates, view.routes, delays_s)

        def oracle() -> Network:
            rates = {
                link.edge: link.properties.rate_bps if link.up and not link.blackholed else 0.0 for link in bed.links()
            }
            return Network(rates, controller.view().routes, delays_s, trace.future(time.monotonic()))

        yield {"feed": feed, "oracle": oracle}


@contextmanager
def journal(
    bed: Testbed, record: Callable[[str, dict[str, Any]], None], failed: Callable[[Exception], None]
) -> Iterator[None]:
    """Keeps everything that the controller reports while the context lasts: reconfigurations, and what led to them.

    What cannot be kept, as on a full disk, ends the arm: it calls `failed`, and what `record` raised is raised then.
    """
    failures: list[RingroadError] = []

    def listen(stream: EventStream) -> None:
        for event in _until_closed(stream):
            try:
                record("reconfigurations" if event.get("event") == "reconfiguration" else "controller_events", event)
            except RingroadError as error:
                failures.append(error)
                with suppress(RingroadError):
                    failed(error)
                return

    with EventStream(bed.state / "controller.sock") as stream:
        thread = threading.Thread(target=listen, args=(stream,), name="journal", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stream.close()
            thread.join()
            if failures:
                raise failures[0]


def _until_closed(stream: EventStream) -> Iterator[dict[str, Any]]:
    """Events until the controller or the stream is gone: whose death it was is the runner's to tell."""
    with suppress(RingroadError, OSError):
        yield from stream.events()


def starting(setting: ArmSetting, workers: WorkersClient) -> AbstractContextManager[None]:
    """What limits the start of a job: ArmTimeout when its ranks have not joined and warmed up in time."""
    timeouts = setting.experiment.timeouts
    limit_s = timeouts.start_s + setting.experiment.warmup * timeouts.collective_s
    late = ArmTimeout(
        f"the workers were not ready after {limit_s:g} s",
        "their logs are in the run folder; if they only need longer, give `timeouts: {start: …}` more",
    )
    return _limited(limit_s, workers, late)


@contextmanager
def _limited(limit_s: float, workers: WorkersClient, late: ArmTimeout) -> Iterator[None]:
    """Stops the workers after `limit_s`, and raises `late`: also if their launcher does not answer any more."""
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        try:
            workers.stop()
        except RingroadError:
            workers.give_up()

    timer = threading.Timer(limit_s, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    except RingroadError as error:
        raise (late if expired.is_set() else error) from error
    finally:
        timer.cancel()
    if expired.is_set():
        raise late
