"""The workers of a live testbed: AllGathers without end, whoever dies or comes back, and the ring that they run.

Owns what people have asked of the ring (N, a pinned order, who has crashed); each job takes it over, and a job that
runs is adjusted. Knows nothing of the WAN but what the limit of a collective needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from testbed.arm import Trace, network_sources
from testbed.bandwidths import BandwidthService
from testbed.bed import Testbed
from testbed.emulation.processes import end
from testbed.launching import launcher
from testbed.live.hub import Hub
from testbed.live.network import Segments
from testbed.live.protocol import Collective, CollectiveEvent, Ring, RingChangeEvent, Workers, WorkersEvent
from topologies.errors import RingroadError
from topologies.units import format_duration
from workers.client import WorkerFailed, WorkersClient
from workers.job import Agent, BackToBack, Every, Job, Rank, rank_name
from workers.limits import allgather_limit_over_time_s

ENDLESS = 10**9
"""Collectives of a job: more than anybody waits for."""

TIMEOUT_S = 60.0
"""After so long without progress gloo gives up, and the workers start anew."""

AGAIN_S = (0.2, 1.0, 5.0, 10.0)
"""How long to wait before the workers start again, the more often they have failed in a row."""

KILLED = ("was killed by", "exited with status")
"""How the launcher tells of a rank whose process has ended by itself."""


@dataclass(frozen=True)
class LoopSettings:
    """What the workers do: shard of each DC, pace (None: back to back), where the agent's bandwidths come from."""

    size_bytes: int
    every_s: float | None = None
    source: str = "feed"
    policy: str = "bottleneck"
    seed: int = 1


class Loop:
    """Runs in a thread of its own between the constructor and `close`. The other methods are for any thread."""

    def __init__(
        self, bed: Testbed, hub: Hub, settings: LoopSettings, arm: Callable[[], str], capacities: Callable[[], Segments]
    ) -> None:
        """`arm` tells which is in force, `capacities` what the WAN could carry until now."""
        self._bed, self._hub, self._settings = bed, hub, settings
        self._arm, self._capacities = arm, capacities
        self._limits = _Limits(settings.size_bytes)
        self._socket = bed.state / "workers.sock"
        self._changed = threading.Condition()
        self._closed = False
        self._job: Job | None = None
        self._crashed: set[str] = set()
        self._every = 0
        self._ring = Ring(bed.wan.dcs, 0, False)
        self._epoch_before = 0
        self._failures = 0
        self.workers = self._state("starting")
        self._thread = threading.Thread(target=self._work, name="workers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the workers; blocks until they are gone."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._stop_job()
        self._thread.join()

    @property
    def ring(self) -> Ring:
        """Of those who live: as the agent decided last, or as it was taken by hand since."""
        with self._changed:
            return replace(self._ring, order=tuple(dc for dc in self._ring.order if dc not in self._crashed))

    def set_every(self, every: int) -> None:
        """N of the agent from the next collective on; 0: it stands still."""
        with self._changed:
            self._every = every
        self._adjust(every=self._effective_every)

    def back_to_start(self) -> None:
        """The ring as listed, unless it is pinned."""
        if not self._ring.pinned:
            self._take(self._bed.wan.dcs, pinned=False)

    def pin(self, order: Sequence[str]) -> None:
        """Keep this order, a permutation of all DCs, whatever the agent would do."""
        self._take(tuple(order), pinned=True)
        self._adjust(every=0)

    def unpin(self) -> None:
        """Leave the order to the agent again."""
        with self._changed:
            self._ring = replace(self._ring, pinned=False)
        self._adjust(every=self._effective_every)

    def crash(self, dc: str) -> None:
        """Kill the worker of a DC. RingroadError if it is dead already."""
        with self._changed:
            if dc in self._crashed:
                raise RingroadError(f"the worker of {dc} is dead already", f"bring it back: ringroad restart {dc}")
            self._crashed.add(dc)
        with suppress(RingroadError), WorkersClient(self._socket) as workers:
            workers.crash(dc)

    def restart(self, dc: str) -> None:
        """Bring it back. RingroadError if it lives."""
        with self._changed:
            if dc not in self._crashed:
                raise RingroadError(f"the worker of {dc} lives", f"kill it first: ringroad crash {dc}")
            self._crashed.discard(dc)
            self._changed.notify_all()
            takes_part = self._job is not None and dc in self._job.dcs
        if not takes_part:
            self._stop_job()
            return
        with suppress(RingroadError), WorkersClient(self._socket) as workers:
            workers.restart(dc)

    def network_is_better(self) -> None:
        """Links came back: workers that still try to meet each other begin anew, rather than wait for TCP to retry."""
        if self.workers.state != "running":
            self._stop_job()
            with self._changed:
                self._failures = 0
                self._changed.notify_all()

    @property
    def _effective_every(self) -> int:
        return 0 if self._ring.pinned else self._every

    def _take(self, order: tuple[str, ...], pinned: bool) -> None:
        with self._changed:
            before = self._ring
            changed = _from_first(order, self._bed.wan.dcs) != _from_first(before.order, self._bed.wan.dcs)
            self._ring = Ring(order, before.epoch + changed, pinned)
            job = self._job
        if job is not None and changed:
            self._adjust(order=_ranks(job, order))
        if changed or pinned != before.pinned:
            text = f"ring {' → '.join(order)}{', pinned by hand' if pinned else ', as at the start'}"
            told = {"predicted_gain": None, "measure_s": 0.0, "decide_s": 0.0, "agree_s": 0.0}
            self._hub.publish(
                RingChangeEvent, text, before=before.order, ring=self._ring, changed=changed, by_hand=True, **told
            )

    def _adjust(self, every: int | None = None, order: Sequence[int] | None = None) -> None:
        """A job that is just ending needs none: the next one takes what is wanted then."""
        with suppress(RingroadError), WorkersClient(self._socket) as workers:
            workers.adjust(every=every, order=order)

    def _stop_job(self) -> None:
        with suppress(RingroadError), WorkersClient(self._socket) as workers:
            workers.stop()

    def _work(self) -> None:
        while not self._closed:
            try:
                with ExitStack() as stack:
                    log = self._bed.log_folder / "workers.log"
                    process = stack.enter_context(launcher(self._bed, self._socket, log))
                    stack.callback(end, [process.pid])
                    sources = stack.enter_context(network_sources(self._bed, Trace(())))
                    stack.enter_context(BandwidthService(self._bed.state / "bandwidths.sock", sources))
                    while not self._closed:
                        self._run_job()
            except (RingroadError, OSError) as error:
                self._rest(f"the workers' launcher: {getattr(error, 'message', error)}")

    def _run_job(self) -> None:
        """One job, until somebody stops it or a worker dies; or a while of waiting."""
        job = self._next_job()
        if job is None:
            self._tell("waiting", "fewer than two workers live")
            with self._changed:
                if not self._closed and len(self._living()) < 2:
                    self._changed.wait()
            return
        self._tell("starting")
        try:
            with WorkersClient(self._socket) as workers:
                with self._changed:
                    self._job = job
                workers.start(job, self._hear)
                self._failures = 0
                self._tell("running")
                if set(self._living()) <= set(job.dcs) and not self._closed:
                    self._adjust(every=self._effective_every)
                    workers.run(self._hear)
        except WorkerFailed as error:
            self._lost(job, error)
        finally:
            with self._changed:
                self._job = None

    def _next_job(self) -> Job | None:
        with self._changed:
            living = self._living()
            if len(living) < 2:
                return None
            self._epoch_before = self._ring.epoch
            settings, folder = self._settings, self._bed.log_folder
            job = Job(
                ranks=tuple(Rank(dc, self._bed.dc(dc).netns_pid) for dc in living),
                size_bytes=settings.size_bytes,
                log_folder=str(folder.resolve()),
                collectives=ENDLESS,
                pacing=BackToBack() if settings.every_s is None else Every(settings.every_s),
                agent=Agent(self._effective_every, settings.source, settings.policy),  # type: ignore[arg-type]
                bandwidth_socket=str(self._bed.state / "bandwidths.sock"),
                seed=settings.seed,
                timeout_s=TIMEOUT_S,
                elastic=True,
            )
            return replace(job, start_order=_ranks(job, self._ring.order))

    def _living(self) -> list[str]:
        return [dc for dc in self._bed.wan.dcs if dc not in self._crashed]

    def _hear(self, event: dict[str, Any]) -> None:
        if event["event"] == "collective":
            self._finished(event)
        elif event["event"] == "ring_change":
            self._decided(event)
        elif event["event"] == "membership":
            self._members_changed(event)

    def _finished(self, event: dict[str, Any]) -> None:
        job = self._job
        assert job is not None
        members = [job.dcs[rank] for rank in event["members"]]
        collective = Collective(
            number=self._hub.next_number(),
            arm=self._arm(),
            start=event["start"],
            end=event["end"],
            time_s=event["time_s"],
            limit_s=self._limits.of(self._capacities(), members, event["start"], event["end"]),
            agent_s=event["agent_s"],
            order=tuple(job.dcs[rank] for rank in event["order"]),
            size_bytes=event["size_bytes"],
            verified=event["verified"],
        )
        text = f"collective {collective.number}: {format_duration(collective.time_s)}"
        self._hub.publish(CollectiveEvent, text, collective=collective)

    def _decided(self, event: dict[str, Any]) -> None:
        job = self._job
        assert job is not None
        before, order = (tuple(job.dcs[rank] for rank in event[name]) for name in ("from", "to"))
        with self._changed:
            if event["changed"] and not self._ring.pinned:
                self._ring = Ring(order, self._epoch_before + event["epoch"], False)
        took_s = event["ended_at"] - event["started_at"]
        gain = event["predicted_gain"]
        promise = f", {gain:+.0%} expected" if gain is not None and event["changed"] else ""
        what = " → ".join(order) if event["changed"] else "stays"
        self._hub.publish(
            RingChangeEvent,
            f"ring {what}{promise}; the agent took {took_s * 1e3:.1f} ms" if event["changed"] else "",
            before=before,
            ring=self._ring,
            changed=event["changed"],
            by_hand=False,
            predicted_gain=gain,
            measure_s=event["probe_s"],
            decide_s=event["decide_s"],
            agree_s=event["agree_s"],
        )

    def _members_changed(self, event: dict[str, Any]) -> None:
        """Workers died, by `crash` or by themselves, or came back; the others have met anew."""
        job = self._job
        assert job is not None
        gone = {dc for dc in job.dcs if dc not in event["dcs"]}
        with self._changed:
            came = {each["dc"] for each in event["joined"]}
            self._crashed = (self._crashed - came) | {each["dc"] for each in event["left"] if each["dc"] in gone}
            order = tuple(job.dcs[rank] for rank in event["order"])
            if not self._ring.pinned:
                self._ring = Ring(order, self._epoch_before + event["epoch"], False)
        said = [f"{each['dc']} {each['why']}" for each in event["left"]]
        said += [f"{each['dc']} is back" for each in event["joined"]]
        said += [str(event["broken"])] if event["broken"] else []
        self._tell("running", f"{'; '.join(said)}; on again after {format_duration(event['pause_s'])}")

    def _lost(self, job: Job, error: WorkerFailed) -> None:
        """A death by `crash` was asked for; of any other the DC counts as crashed; a broken connection passes."""
        dead = next((dc for rank, dc in enumerate(job.dcs) if error.culprit == rank_name(job, rank)), None)
        message = error.message.partition("\n")[0]
        with self._changed:
            if dead is not None and dead not in self._crashed and any(how in message for how in KILLED):
                self._crashed.add(dead)
            expected = self._closed or bool(self._crashed & set(job.dcs)) or "stopped before" in message
        if not expected:
            self._rest(message)

    def _rest(self, reason: str) -> None:
        """After something went wrong: longer the more often it did."""
        if self._closed:
            return
        self._tell("waiting", reason)
        with self._changed:
            wait_s = AGAIN_S[min(self._failures, len(AGAIN_S) - 1)]
            self._failures += 1
            if not self._closed:
                self._changed.wait(wait_s)

    def _state(self, state: str, reason: str = "") -> Workers:
        with self._changed:
            living, crashed = tuple(self._living()), tuple(sorted(self._crashed))
        return Workers(state, living, crashed, self._settings.size_bytes, self._settings.every_s, reason)

    def _tell(self, state: str, reason: str = "") -> None:
        before, self.workers = self.workers, self._state(state, reason)
        if self.workers == before or self._closed:
            return
        dead = f"; crashed: {', '.join(self.workers.crashed)}" if self.workers.crashed else ""
        text = f"workers {state}{f': {reason}' if reason else ''}{dead}"
        self._hub.publish(WorkersEvent, text, workers=self.workers)


def _ranks(job: Job, order: Sequence[str]) -> tuple[int, ...]:
    """An order of DCs as ranks of a job, those that it lacks left out, those that are new at the end."""
    there = [dc for dc in order if dc in job.dcs]
    there += [dc for dc in job.dcs if dc not in there]
    return tuple(_from_first([job.dcs.index(dc) for dc in there], range(len(job.dcs))))


def _from_first(order: Sequence[Any], listed: Sequence[Any]) -> list[Any]:
    """The same ring, told from the one that is listed first."""
    at = order.index(listed[0]) if listed[0] in order else 0
    return [*order[at:], *order[:at]]


class _Limits:
    """The lower bound on a collective; the same WAN is not solved twice in a row."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._known: tuple[Any, float | None] = (None, None)

    def of(self, segments: Segments, dcs: Sequence[str], start: float, end: float) -> float | None:
        """In seconds, for a collective that ran from `start` to `end`; None where DCs are cut off for good."""
        first = max((i for i, (at, _) in enumerate(segments) if at <= start), default=0)
        during = [(start, segments[first][1])]
        during += [(at, rates) for at, rates in segments[first + 1 :] if start < at <= end]
        key = (tuple(dcs), tuple(during[0][1].items())) if len(during) == 1 else None
        if key is not None and key == self._known[0]:
            return self._known[1]
        limit_s = allgather_limit_over_time_s(during, dcs, self._size_bytes, start)
        limit = limit_s if limit_s < float("inf") else None
        self._known = (key, limit)
        return limit
