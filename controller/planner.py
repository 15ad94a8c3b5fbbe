"""The controller's decisions: (state, event, now) → (state, what to send, who moves). Pure: no OpenFlow, no clock.

A tunnel's inner rules (transit, egress) are sent to each switch and confirmed by a barrier before any ingress rule
points at it; so a pair is on one whole path or the other after every single message, in whatever order switches work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller.activity import Activity
from controller.adoption import adopt, delete_unused, lose
from controller.calm import Calm
from controller.choosing import choose
from controller.events import (
    BatchConfirmed,
    CapacityChanged,
    DemandsAnnounced,
    DetoursDue,
    Event,
    PeriodElapsed,
    Pin,
    PortChanged,
    Reset,
    SwitchConnected,
    SwitchLost,
    Unpin,
    WishDue,
)
from controller.installing import choose_detours, confirm, send_groups, send_ingress, send_inner, send_site, with_tunnel
from controller.records import Move
from controller.rules import Batch
from controller.state import Network, State
from controller.tunnels import Tunnel, check_route, extra_tunnel
from controller.view import Pair, Policy, Route, View
from topologies.errors import InputError
from topologies.model import Edge

__all__ = ["Decision", "Network", "State", "initial_state", "step", "view_of"]


@dataclass(frozen=True)
class Decision:
    """What one event leads to: batches to send (each switch's in order), and the pairs that change their route."""

    batches: tuple[Batch, ...] = ()
    moves: tuple[Move, ...] = ()
    fault: str = ""
    """What is wrong with the policy's answer, the first time."""


def initial_state(network: Network, policy: Policy, detouring: bool = True) -> State:
    """Every pair on its shortest path, capacities as the WAN has them, no switch connected yet."""
    return State(
        network,
        policy,
        {edge: properties.rate_bps for edge, properties in network.wan.edges.items()},
        {pair: tunnels[0] for pair, tunnels in network.plan.tunnels.items()},
        dict(network.plan.tunnels),
        network.keys,
        network.detours,
        detouring=detouring,
        calm=Calm(capacities_bps={edge: properties.rate_bps for edge, properties in network.wan.edges.items()}),
    )


def step(state: State, event: Event, now: float) -> tuple[State, Decision]:
    """One event in, the next state and what to do out. InputError for a request that cannot be met; nothing changes."""
    before, fault_before = state.wanted, state.policy_fault
    state = _take_in(state, event, now)
    if isinstance(event, SwitchConnected):
        # A pair that is found somewhere else than it was thought to be has not moved.
        before = state.wanted
    if _asks_policy(state, event):
        state = _decide(state, now, at_once=isinstance(event, DemandsAnnounced))
    state, batches = _reconcile(state, event, now)
    changed = () if state.wanted is before else state.wanted.items()
    moves = (
        Move(pair, before[pair].route, after.route) for pair, after in changed if after.route != before[pair].route
    )
    fault = state.policy_fault if state.policy_fault != fault_before else ""
    return state, Decision(batches, tuple(moves), fault)


def view_of(state: State) -> View:
    """What a policy sees: where a switch is away, its pairs and the tunnels through it are left as they are."""
    return View(
        capacities_bps=state.capacities_bps,
        down=state.down,
        candidates={pair: _candidates(state, pair) for pair in state.wanted},
        lengths=state.network.plan.lengths,
        routing={pair: tunnel.route for pair, tunnel in state.wanted.items()},
        active=state.active,
        demands_bytes=state.announced or {},
    )


def _candidates(state: State, pair: Pair) -> tuple[Route, ...]:
    present = state.wanted[pair].route
    if pair in state.pinned or pair[0] not in state.connected:
        return (present,)
    planned = (tunnel.route for tunnel in state.network.plan.tunnels[pair])
    return tuple(route for route in planned if state.connected.issuperset(route)) or (present,)


def _take_in(state: State, event: Event, now: float) -> State:
    match event:
        case CapacityChanged(rates_bps):
            return replace(state, capacities_bps={**state.capacities_bps, **_checked(state, rates_bps)})
        case PortChanged(edge, up):
            ports_down = state.ports_down - {edge} if up else state.ports_down | {edge}
            return replace(state, ports_down=ports_down, detours_due=True)
        case DemandsAnnounced(size_bytes):
            return _announce(state, size_bytes)
        case PeriodElapsed(counters):
            return replace(state, activity=state.activity.after(counters, now))
        case BatchConfirmed(batch):
            return confirm(state, batch)
        case SwitchConnected(site, ports_down, held):
            return adopt(state, site, ports_down, held)
        case SwitchLost(site):
            return lose(state, site)
        case Pin(pair, route):
            return _pin(state, pair, route)
        case Unpin(pair):
            return _unpin(state, pair)
        case DetoursDue() | WishDue():
            return state
        case Reset(policy, rates_bps, detours):
            rates = {**state.capacities_bps, **_checked(state, rates_bps)}
            shortest = {pair: tunnels[0] for pair, tunnels in state.network.plan.tunnels.items()}
            return replace(
                state,
                policy=policy,
                capacities_bps=rates,
                wanted=shortest,
                pinned=frozenset(),
                activity=Activity(),
                announced=None if state.announced is None else {},
                calm=Calm(state.calm.settings, capacities_bps=rates),
                policy_fault="",
                detouring=state.detouring if detours is None else detours,
                groups_due=state.groups_due or detours not in (None, state.detouring),
            )


def _asks_policy(state: State, event: Event) -> bool:
    return state.started and isinstance(
        event, CapacityChanged | DemandsAnnounced | PortChanged | PeriodElapsed | WishDue
    )


def _decide(state: State, now: float, at_once: bool) -> State:
    choice = choose(state.policy, view_of(state), state.calm, now, at_once)
    wanted = {
        pair: present if choice.routing[pair] == present.route else _tunnel_on(state, pair, choice.routing[pair])
        for pair, present in state.wanted.items()
    }
    return replace(state, wanted=wanted, calm=choice.calm, policy_fault=choice.fault)


def _announce(state: State, size_bytes: Mapping[Pair, float]) -> State:
    if state.announced is None:
        remedy = "start it with demands: announced"
        raise InputError("this controller measures demands and takes no announcement", remedy=remedy)
    for pair, size in size_bytes.items():
        _known(state, pair)
        if not 0 <= size < float("inf"):
            raise InputError("a demand is in bytes, not negative", place="-".join(pair), value=size)
    return replace(state, announced=dict(size_bytes))


def _tunnel_on(state: State, pair: Pair, route: Route) -> Tunnel:
    return next(tunnel for tunnel in state.tunnels[pair] if tunnel.route == route)


def _checked(state: State, rates_bps: Mapping[Edge, float]) -> Mapping[Edge, float]:
    for edge, rate_bps in rates_bps.items():
        state.network.wan.link(edge)
        if not 0 <= rate_bps < float("inf"):
            raise InputError("a capacity is a rate in bit/s, not negative", place="-".join(edge), value=rate_bps)
    return rates_bps


def _known(state: State, pair: Pair) -> None:
    if pair not in state.wanted:
        for site in pair:
            state.network.wan.site(site)
        raise InputError(
            "no tunnels for this pair", value="-".join(pair), remedy="give two different DCs, or two neighbors"
        )


def _pin(state: State, pair: Pair, route: Route) -> State:
    _known(state, pair)
    check_route(state.network.wan, pair, route)
    existing = state.tunnels[pair]
    if route not in (tunnel.route for tunnel in existing):
        state = with_tunnel(state, extra_tunnel(existing, route, state.taken))
    wanted = {**state.wanted, pair: _tunnel_on(state, pair, route)}
    return replace(state, wanted=wanted, pinned=state.pinned | {pair})


def _unpin(state: State, pair: Pair) -> State:
    _known(state, pair)
    if pair not in state.pinned:
        return state
    wanted = {**state.wanted, pair: state.tunnels[pair][0]}
    return replace(state, wanted=wanted, pinned=state.pinned - {pair})


def _reconcile(state: State, event: Event, now: float) -> tuple[State, tuple[Batch, ...]]:
    """Send what is wanted, not sent yet, and safe to send now."""
    inner: tuple[Batch, ...] = ()
    match event:
        case SwitchConnected(site):
            state, inner = send_site(state, site)
        case Pin(pair):
            stand_ins = (detour for detours in state.stand_ins.values() for detour in detours)
            state, inner = send_inner(state, (*state.tunnels[pair], *stand_ins), sorted(state.connected))
        case DetoursDue():
            state, new = choose_detours(state)
            state, inner = send_inner(state, new, sorted(state.connected)) if new else (state, ())
        case PeriodElapsed():
            state, inner = delete_unused(state, now)
    state, ingress = send_ingress(state, event.batch.tags if isinstance(event, BatchConfirmed) else None)
    if not state.started and state.placed:
        state = replace(state, started=True)
    state, groups = send_groups(state)
    return state, (*inner, *ingress, *groups)
