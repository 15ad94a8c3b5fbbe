"""The controller's decisions: (state, event, now) → (state, what to send, who moves). Pure: no OpenFlow, no clock.

A tunnel's inner rules (transit, egress) are sent to each switch and confirmed by a barrier before any ingress rule
points at it; so a pair is on one whole path or the other after every single message, in whatever order switches work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from controller.activity import Activity
from controller.events import (
    BatchConfirmed,
    CapacityChanged,
    Event,
    PeriodElapsed,
    Pin,
    PortChanged,
    Reset,
    SwitchConnected,
    SwitchLost,
    Unpin,
)
from controller.records import Move
from controller.rules import Batch, RuleChange
from controller.settings import Wiring
from controller.tunnels import (
    Tunnel,
    TunnelPlan,
    check_route,
    extra_tunnel,
    ingress_rule,
    inner_rules,
    table_miss_rule,
)
from controller.view import Pair, Policy, Route, View
from topologies.errors import InputError
from topologies.model import Edge, Wan


@dataclass(frozen=True)
class Network:
    """What stays the same while the controller lives."""

    wan: Wan
    wiring: Wiring
    plan: TunnelPlan

    @cached_property
    def sites(self) -> frozenset[str]:
        """Names of all sites, each with one switch."""
        return frozenset(self.wiring.dpids)


@dataclass(frozen=True)
class State:
    """All that the controller knows and wants.

    `wanted` is where each pair should be, `sent` and `confirmed` (tags) how far its ingress rule has come; `inner_sent`
    and `inner_confirmed` (tags by site) are the same for the inner rules of tunnels.
    """

    network: Network
    policy: Policy
    capacities_bps: Mapping[Edge, float]
    wanted: Mapping[Pair, Tunnel]
    tunnels: Mapping[Pair, tuple[Tunnel, ...]]
    """The plan's tunnels, and after them those that pins have added."""
    pinned: frozenset[Pair] = frozenset()
    ports_down: frozenset[Edge] = frozenset()
    activity: Activity = field(default_factory=Activity)
    connected: frozenset[str] = frozenset()
    started: bool = False
    """Every rule has been confirmed once: from then on the policy is asked."""
    inner_sent: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inner_confirmed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sent: Mapping[Pair, str] = field(default_factory=dict)
    confirmed: Mapping[Pair, str] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Every switch is there, and every rule that is wanted is confirmed."""
        return (
            self.connected == self.network.sites
            and self.inner_confirmed == self.inner_sent
            and all(self.confirmed.get(pair) == tunnel.tag for pair, tunnel in self.wanted.items())
        )

    @property
    def rules(self) -> int:
        """How many rules the switches have confirmed, table-miss rules left out."""
        return sum(map(len, self.inner_confirmed.values())) + len(self.confirmed)

    @property
    def down(self) -> frozenset[Edge]:
        """Edges that carry nothing: a port that is down stops its link in both directions."""
        return frozenset(edge for a, b in self.ports_down for edge in ((a, b), (b, a)))


@dataclass(frozen=True)
class Decision:
    """What one event leads to: batches to send (each switch's in order), and the pairs that change their route."""

    batches: tuple[Batch, ...] = ()
    moves: tuple[Move, ...] = ()


def initial_state(network: Network, policy: Policy) -> State:
    """Every pair on its shortest path, capacities as the WAN has them, no switch connected yet."""
    return State(
        network,
        policy,
        {edge: properties.rate_bps for edge, properties in network.wan.edges.items()},
        {pair: tunnels[0] for pair, tunnels in network.plan.tunnels.items()},
        dict(network.plan.tunnels),
    )


def step(state: State, event: Event, now: float) -> tuple[State, Decision]:
    """One event in, the next state and what to do out. InputError for a request that cannot be met; nothing changes."""
    before = state.wanted
    state = _take_in(state, event, now)
    if _asks_policy(state, event):
        state = replace(state, wanted=_decide(state, now))
    state, batches = _reconcile(state, event)
    if state.ready and not state.started:
        state = replace(state, started=True)
    moves = (
        Move(pair, before[pair].route, tunnel.route)
        for pair, tunnel in state.wanted.items()
        if tunnel.route != before[pair].route
    )
    return state, Decision(batches, tuple(moves))


def view_of(state: State) -> View:
    """What a policy sees: where a switch is away, its pairs and the tunnels through it are left as they are."""
    return View(
        capacities_bps=state.capacities_bps,
        down=state.down,
        candidates={pair: _candidates(state, pair) for pair in state.wanted},
        lengths=state.network.plan.lengths,
        routing={pair: tunnel.route for pair, tunnel in state.wanted.items()},
        active=state.activity.pairs,
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
            return replace(state, ports_down=ports_down)
        case PeriodElapsed(counters):
            return replace(state, activity=state.activity.after(counters, now))
        case BatchConfirmed(batch):
            return _confirm(state, batch)
        case SwitchConnected(site, ports_down):
            return _connect(state, site, ports_down)
        case SwitchLost(site):
            return _lose(state, site)
        case Pin(pair, route):
            return _pin(state, pair, route)
        case Unpin(pair):
            return _unpin(state, pair)
        case Reset(policy, rates_bps):
            rates = {**state.capacities_bps, **_checked(state, rates_bps)}
            shortest = {pair: tunnels[0] for pair, tunnels in state.network.plan.tunnels.items()}
            return replace(
                state,
                policy=policy,
                capacities_bps=rates,
                wanted=shortest,
                pinned=frozenset(),
                activity=Activity(),
            )


def _asks_policy(state: State, event: Event) -> bool:
    return state.started and isinstance(event, CapacityChanged | PortChanged | PeriodElapsed)


def _decide(state: State, now: float) -> dict[Pair, Tunnel]:
    view = view_of(state)
    routing = state.policy.decide(view, now)
    wanted = {}
    for pair, present in state.wanted.items():
        route = routing[pair]
        if route == present.route:
            wanted[pair] = present
        elif route in view.candidates[pair]:
            wanted[pair] = _tunnel_on(state, pair, route)
        else:
            raise InputError("the policy chose a path that is not a candidate", place="-".join(pair), value=list(route))
    return wanted


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
        state = replace(state, tunnels={**state.tunnels, pair: (*existing, extra_tunnel(existing, route))})
    wanted = {**state.wanted, pair: _tunnel_on(state, pair, route)}
    return replace(state, wanted=wanted, pinned=state.pinned | {pair})


def _unpin(state: State, pair: Pair) -> State:
    _known(state, pair)
    if pair not in state.pinned:
        return state
    wanted = {**state.wanted, pair: state.tunnels[pair][0]}
    return replace(state, wanted=wanted, pinned=state.pinned - {pair})


def _connect(state: State, site: str, ports_down: frozenset[Edge]) -> State:
    other_ports = frozenset(edge for edge in state.ports_down if edge[0] != site)
    state = _lose(state, site)
    return replace(state, connected=state.connected | {site}, ports_down=other_ports | ports_down)


def _lose(state: State, site: str) -> State:
    """What the switch holds is unknown from here on; it goes on forwarding by it all the same."""
    return replace(
        state,
        connected=state.connected - {site},
        inner_sent={other: tags for other, tags in state.inner_sent.items() if other != site},
        inner_confirmed={other: tags for other, tags in state.inner_confirmed.items() if other != site},
        sent={pair: tag for pair, tag in state.sent.items() if pair[0] != site},
        confirmed={pair: tag for pair, tag in state.confirmed.items() if pair[0] != site},
    )


def _confirm(state: State, batch: Batch) -> State:
    tags = state.inner_confirmed.get(batch.site, frozenset()) | batch.tags
    return replace(
        state,
        inner_confirmed={**state.inner_confirmed, batch.site: tags},
        confirmed={**state.confirmed, **dict(batch.ingress)},
    )


def _reconcile(state: State, event: Event) -> tuple[State, tuple[Batch, ...]]:
    """Send what is wanted, not sent yet, and safe to send now."""
    inner: tuple[Batch, ...] = ()
    match event:
        case SwitchConnected(site):
            all_tunnels = (tunnel for tunnels in state.tunnels.values() for tunnel in tunnels)
            state, inner = _send_inner(state, all_tunnels, frozenset((site,)))
        case Pin(pair):
            state, inner = _send_inner(state, state.tunnels[pair], state.connected)
    state, ingress = _send_ingress(state)
    return state, (*inner, *ingress)


def _send_inner(state: State, tunnels: Iterable[Tunnel], sites: frozenset[str]) -> tuple[State, tuple[Batch, ...]]:
    changes: dict[str, dict[str, RuleChange]] = {}
    for tunnel in tunnels:
        for site in sites.intersection(tunnel.route[1:]):
            if tunnel.tag not in state.inner_sent.get(site, frozenset()):
                rule = inner_rules(tunnel, state.network.wiring)[site]
                changes.setdefault(site, {})[tunnel.tag] = RuleChange("add", rule)
    first = (RuleChange("add", table_miss_rule()),)
    batches = tuple(
        Batch(site, (() if site in state.inner_sent else first) + tuple(by_tag.values()), tags=frozenset(by_tag))
        for site, by_tag in changes.items()
    )
    sent = {batch.site: state.inner_sent.get(batch.site, frozenset()) | batch.tags for batch in batches}
    return replace(state, inner_sent={**state.inner_sent, **sent}), batches


def _send_ingress(state: State) -> tuple[State, tuple[Batch, ...]]:
    by_site: dict[str, list[Tunnel]] = {}
    for pair, tunnel in state.wanted.items():
        if state.sent.get(pair) != tunnel.tag and _is_whole(state, tunnel):
            by_site.setdefault(pair[0], []).append(tunnel)
    batches = tuple(
        Batch(
            site,
            tuple(_ingress_change(state, tunnel) for tunnel in tunnels),
            ingress=tuple((tunnel.pair, tunnel.tag) for tunnel in tunnels),
        )
        for site, tunnels in by_site.items()
    )
    sent = {pair: tag for batch in batches for pair, tag in batch.ingress}
    return replace(state, sent={**state.sent, **sent}), batches


def _ingress_change(state: State, tunnel: Tunnel) -> RuleChange:
    """The first on a connection is an `add`, whatever the switch held before; a move keeps the rule's counters."""
    return RuleChange("modify" if tunnel.pair in state.sent else "add", ingress_rule(tunnel, state.network.wiring))


def _is_whole(state: State, tunnel: Tunnel) -> bool:
    """Its ingress can be told, and every later switch has confirmed its rule."""
    return tunnel.pair[0] in state.connected and all(
        tunnel.tag in state.inner_confirmed.get(site, frozenset()) for site in tunnel.route[1:]
    )
