"""The controller's live part without any framework: takes events in, keeps the state, sends, and tells what happened.

Runs in one thread (or one set of green threads) and never blocks: `Switches` is told to send, not waited for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from controller import events, planner
from controller.ceilings import Ceilings, Counters
from controller.journal import Journal
from controller.memory import Told
from controller.policies import make_policy
from controller.records import Move, Reconfiguration, reconfiguration_to_json
from controller.rules import EMPTY, Batch, Held
from controller.settings import ControllerConfig
from controller.tunnels import plan_tunnels
from controller.view import Pair, Route
from topologies.errors import InputError
from topologies.model import Edge

LOG = logging.getLogger("controller")

MAX_TOLD = 1000
"""What strangers do is told so often at most: nobody can fill a log by calling."""

SOONEST_S = 0.001
"""The engine is not woken sooner: not by a clock that is read a hair too early."""

Clock = Callable[[], float]
Installed = Callable[[Reconfiguration], None]


class Switches(Protocol):
    """Whatever carries messages to switches and reports back: `confirmed`, `refused`, `period_elapsed`."""

    def send(self, batch: Batch) -> None:
        """Queue a batch and its barrier for the switch of `batch.site`; never blocks."""
        ...

    def defer(self, callback: Callable[[], None]) -> None:
        """Call back soon, once what was queued has left: what can wait for pairs that move."""
        ...

    def wake(self, after_s: float, callback: Callable[[], None]) -> None:
        """Call back once, after so long."""
        ...

    def set_period(self, period_s: float) -> None:
        """From now on read the byte counters of all ingress rules every `period_s`."""
        ...


def network_of(config: ControllerConfig) -> planner.Network:
    """What is planned once: tunnels and detours."""
    plan = plan_tunnels(config.wan, config.settings.tunnels)
    return planner.Network(config.wan, config.wiring, plan, with_detours=config.settings.detours is not False)


class Engine:
    """One controller. `publish` gets every event as JSON; the methods are called by the OpenFlow app and the server."""

    def __init__(
        self,
        config: ControllerConfig,
        switches: Switches,
        publish: Callable[[dict[str, Any]], None],
        clock: Clock = time.monotonic,
        network: planner.Network | None = None,
    ) -> None:
        """`network` saves the planning of tunnels and detours where that has been done already."""
        self.settings = config.settings
        self.policy_name = config.settings.policy
        self.period_s = config.settings.period_s
        self.refused_dpids: set[int] = set()
        self.duplicate_dpids: set[int] = set()
        self.malformed_count = 0
        self.true_capacities_bps: dict[Edge, float] = {}
        """What emulated links are set to, as far as that was told: to be looked at, never decided upon."""
        self._silent: set[Edge] = set()
        self._detours_deferred = False
        self._wakes_at: float | None = None
        self.faults: list[str] = []
        self._switches, self._publish, self._clock = switches, publish, clock
        initial = planner.initial_state(
            network or network_of(config),
            make_policy(self.policy_name, self.settings),
            self.settings.detours_with(self.policy_name),
        )
        self.state = replace(
            initial,
            calm=replace(initial.calm, settings=self.settings.calm),
            announced={} if self.settings.demands == "announced" else None,
        )
        self._ceilings = Ceilings(self.state.capacities_bps)
        self._journal = Journal()
        self._on_installed: dict[int, Installed] = {}
        self._on_ready: list[Callable[[], None]] = []
        self._on_settled: list[Callable[[], None]] = []

    def connected(self, site: str, ports_down: frozenset[Edge], held: Held = EMPTY) -> None:
        """The switch of a site is there, with these ports (site, neighbor) down, and this was read from it."""
        self._tell("switch", site=site, what="connected", found=len(held.rules) + len(held.groups))
        self._apply(events.SwitchConnected(site, ports_down, held), "switch")
        self._call_back()

    def lost(self, site: str) -> None:
        """The switch of a site is gone."""
        self._tell("switch", site=site, what="lost")
        self._apply(events.SwitchLost(site), "switch")
        self._finish(self._journal.lose(site))

    def refuse_dpid(self, dpid: int) -> None:
        """A switch that is not of this network has called; told once for each datapath id."""
        if dpid not in self.refused_dpids and len(self.refused_dpids) < MAX_TOLD:
            self.refused_dpids.add(dpid)
            self._tell("switch", dpid=dpid, what="refused")

    def refuse_duplicate(self, dpid: int) -> None:
        """A second switch claims the datapath id of one that is there; told once for each datapath id."""
        if dpid not in self.duplicate_dpids:
            self.duplicate_dpids.add(dpid)
            self._tell("switch", dpid=dpid, what="duplicate")

    def malformed(self, dpid: int | None, reason: str) -> None:
        """A connection has sent what no switch sends, and was closed; `dpid` is who it said to be, if it did."""
        self.malformed_count += 1
        if self.malformed_count <= MAX_TOLD:
            self._tell("malformed", dpid=dpid, what=reason)

    def confirmed(self, batch: Batch) -> None:
        """A switch has done a batch."""
        at = self._clock()
        self._apply(events.BatchConfirmed(batch), "switch")
        for pair, tag in batch.ingress:
            self._finish(self._journal.confirm(pair, tag, at))
        self._call_back()

    def refused(self, batch: Batch, reason: str) -> None:
        """A switch has refused a rule of a batch: none of it is counted as confirmed."""
        self.faults.append(f"the switch of {batch.site} refused a rule: {reason}")
        self._tell("error", site=batch.site, what=self.faults[-1])
        self._finish(self._journal.lose(batch.site))

    def port_changed(self, edge: Edge, up: bool, cause: str = "port_status") -> None:
        """A switch says that its port edge[0] → edge[1] went up or down; or (`blackhole`) that nothing comes by it."""
        if (edge not in self.state.ports_down) == up:
            if edge in self._silent and not up and cause == "port_status":
                self._was_no_blackhole(edge)
            return
        if cause == "blackhole":
            self._silent.add(edge)
        else:
            self._silent.discard(edge)
        seen_at = self._clock()
        self._tell("link", edge=list(edge), up=up, cause=cause)
        self._apply(events.PortChanged(edge, up), cause, seen_at=seen_at)

    def _was_no_blackhole(self, edge: Edge) -> None:
        """Of a link that goes down a switch may tell first that its port is dead, and a moment later why."""
        self._silent.discard(edge)
        self._tell("link", edge=list(edge), up=False, cause="port_status")
        self._journal.correct_cause("blackhole", "port_status")

    def period_elapsed(self, counters: Mapping[Pair, int]) -> None:
        """A period is over, with the bytes that each pair has sent until now."""
        self._apply(events.PeriodElapsed(counters), "period")

    def capacity(self, rates_bps: Mapping[Edge, float], happened_at: float) -> int | None:
        """New capacities; the number of the reconfiguration that follows, None without one.

        InputError where they are measured.
        """
        if self.settings.capacity == "measured":
            raise InputError(
                "this controller measures capacities and takes none", remedy="start it with capacity: feed"
            )
        record = self._apply(events.CapacityChanged(rates_bps), "capacity", happened_at=happened_at)
        return record.number if record else None

    def ports_polled(self, counters: Mapping[Edge, Counters]) -> None:
        """What the ports of all switches have counted until now."""
        self._ceilings, news = self._ceilings.after(counters, self._clock())
        if news:
            self._apply(events.CapacityChanged(news), "capacity")

    def true_capacities(self, rates_bps: Mapping[Edge, float]) -> None:
        """What links carry in truth. InputError for one that does not exist."""
        for edge in rates_bps:
            self.state.network.wan.link(edge)
        self.true_capacities_bps |= rates_bps

    def demands(self, size_bytes: Mapping[Pair, float], happened_at: float) -> int | None:
        """Who sends from now on, and how much; as `capacity`."""
        record = self._apply(events.DemandsAnnounced(size_bytes), "demands", happened_at=happened_at)
        return record.number if record else None

    def pin(self, pair: Pair, route: Route, installed: Installed) -> bool:
        """Pin a pair; calls `installed` once confirmed. False, and no call, if it moves nothing."""
        return self._request(events.Pin(pair, route), "pin", installed)

    def unpin(self, pair: Pair, installed: Installed) -> bool:
        """Unpin a pair; as `pin`."""
        return self._request(events.Unpin(pair), "pin", installed)

    def reset(self, policy: str, period_s: float | None, rates_bps: Mapping[Edge, float], installed: Installed) -> bool:
        """Everything to the start, with a policy and, where given, a period; as `pin`."""
        made = make_policy(policy, self.settings)
        event = events.Reset(made, rates_bps, self.settings.detours_with(policy))
        moves = self._request(event, "reset", installed)
        self._ceilings = Ceilings(self.state.capacities_bps)
        self.policy_name = policy
        if period_s is not None:
            self.period_s = period_s
        self._switches.set_period(self.period_s)
        return moves

    def set_period(self, period_s: float) -> None:
        """From now on look every `period_s`; nothing else changes. InputError if it is out of range."""
        self.period_s = replace(self.settings, period_s=period_s).period_s
        self._switches.set_period(self.period_s)

    @property
    def told(self) -> Told:
        """What a controller that has to start anew would have to be told."""
        pins = {pair: self.state.wanted[pair].route for pair in self.state.pinned}
        state = self.state
        return Told(
            self.policy_name, self.period_s, state.capacities_bps, pins, state.announced, self.true_capacities_bps
        )

    def recall(self, told: Told | None) -> None:
        """Take over what an earlier process was told; before any switch is there."""
        if told is None:
            return
        made = make_policy(told.policy, self.settings)
        self.policy_name, self.period_s = told.policy, told.period_s
        self.true_capacities_bps = dict(told.true_capacities_bps)
        detours = self.settings.detours_with(told.policy)
        self.state, _ = planner.step(self.state, events.Reset(made, told.capacities_bps, detours), self._clock())
        if told.demands_bytes is not None and self.state.announced is not None:
            self.state, _ = planner.step(self.state, events.DemandsAnnounced(told.demands_bytes), self._clock())
        for pair, route in told.pins.items():
            self.state, _ = planner.step(self.state, events.Pin(pair, route), self._clock())

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call back once every rule is confirmed: at once if so already."""
        if self.state.ready:
            callback()
        else:
            self._on_ready.append(callback)

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call back once everything sent to the switches that are there is confirmed: at once if so already."""
        if self.state.settled:
            callback()
        else:
            self._on_settled.append(callback)

    def _call_back(self) -> None:
        """Whoever waits for readiness, or for everything to be settled."""
        waiting: list[Callable[[], None]] = []
        if self._on_settled and self.state.settled:
            waiting, self._on_settled = self._on_settled, []
        if self._on_ready and self.state.ready:
            waiting, self._on_ready = [*waiting, *self._on_ready], []
        for callback in waiting:
            callback()

    def _request(self, event: events.Event, cause: str, installed: Installed) -> bool:
        if not self.state.started:
            raise InputError("the controller is not ready", remedy="wait_ready first")
        return self._apply(event, cause, installed=installed) is not None

    def _apply(
        self,
        event: events.Event,
        cause: str,
        *,
        happened_at: float | None = None,
        seen_at: float | None = None,
        installed: Installed | None = None,
    ) -> Reconfiguration | None:
        seen = self._clock() if seen_at is None else seen_at
        started_before = self.state.started
        self.state, decision = planner.step(self.state, event, seen)
        times = (seen if happened_at is None else happened_at, seen, self._clock())
        for batch in decision.batches:
            self._switches.send(batch)
        if self.state.started and not started_before:
            self._switches.set_period(self.period_s)
        if decision.fault:
            self._tell("policy", policy=self.policy_name, what=decision.fault)
        record = self._open(cause, times, decision.moves, installed) if decision.moves else None
        if self.state.owes_detours and not self._detours_deferred:
            self._detours_deferred = True
            self._switches.defer(self._bring_detours_up_to_date)
        self._wake_for_wishes(cause)
        return record

    def _wake_for_wishes(self, cause: str) -> None:
        """Look again when the first wish is due; what follows then has the cause of now."""
        due_at = self.state.calm.due_at
        if due_at is None or (self._wakes_at is not None and self._wakes_at <= due_at):
            return
        self._wakes_at = due_at

        def _due() -> None:
            if self._wakes_at == due_at:
                self._wakes_at = None
                self._apply(events.WishDue(), cause)

        self._switches.wake(max(SOONEST_S, due_at - self._clock()), _due)

    def _bring_detours_up_to_date(self) -> None:
        self._detours_deferred = False
        if self.state.owes_detours:
            self._apply(events.DetoursDue(), "detours")
            self._call_back()

    def _open(
        self, cause: str, times: tuple[float, float, float], moves: tuple[Move, ...], installed: Installed | None
    ) -> Reconfiguration:
        tags = {move.pair: self.state.wanted[move.pair].tag for move in moves}
        record, finished = self._journal.open(cause, times, moves, tags, self.state.connected)
        if installed:
            self._on_installed[record.number] = installed
        self._finish(finished)
        return record

    def _finish(self, finished: list[Reconfiguration]) -> None:
        for record in finished:
            plain = reconfiguration_to_json(record)
            LOG.info("%s", _line(record))
            self._publish(plain)
            callback = self._on_installed.pop(record.number, None)
            if callback:
                callback(record)

    def _tell(self, event: str, **fields: Any) -> None:
        LOG.info("%s %s", event, " ".join(f"{name}={value}" for name, value in fields.items()))
        self._publish({"event": event, "at": self._clock(), **fields})


def _line(record: Reconfiguration) -> str:
    """One line for the log."""
    moves = "; ".join(f"{'-'.join(m.before)} => {'-'.join(m.after)}" for m in record.moves)
    if record.installed_at is None:
        return f"reconfiguration {record.number} ({record.cause}) lost={record.lost}: {moves}"
    took_ms = (record.installed_at - record.happened_at) * 1e3
    return f"reconfiguration {record.number} ({record.cause}) in {took_ms:.1f} ms: {moves}"
