"""All that the controller knows, wants, has sent and has had confirmed, as one value. Pure; `planner` changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from controller.activity import Activity
from controller.calm import Calm
from controller.detours import Around, Detour, Hop
from controller.groups import GroupKey, keys_of, number_of
from controller.rules import MAX_DETOURS, Held
from controller.settings import Wiring
from controller.tunnels import Tunnel, TunnelPlan
from controller.view import Pair, Policy, Route
from topologies.errors import InputError
from topologies.model import Edge, Wan

STRANGERS = "strangers"
"""Stands for all strangers where a tag is asked for."""

Carrier = Tunnel | Detour
"""What has a tag, a route, and a rule at each site of it but the first."""


@dataclass(frozen=True)
class Network:
    """What stays the same while the controller lives. Without `with_detours` no detour is ever installed."""

    wan: Wan
    wiring: Wiring
    plan: TunnelPlan
    with_detours: bool = True

    @cached_property
    def sites(self) -> frozenset[str]:
        """Names of all sites, each with one switch."""
        return frozenset(self.wiring.dpids)

    @cached_property
    def around(self) -> Around:
        """Finds detours."""
        return Around(self.plan.lengths)

    @cached_property
    def detours(self) -> Mapping[Hop, Detour]:
        """For every link that a tunnel takes, by destination; links that are the only way have none."""
        hops = (
            (key.edge, key.target)
            for tunnels in self.plan.tunnels.values()
            for tunnel in tunnels
            for key in keys_of(tunnel.route)
        )
        found = {hop: self.first_detour(hop) for hop in dict.fromkeys(hops)}
        return {hop: detour for hop, detour in found.items() if detour is not None}

    @cached_property
    def keys(self) -> Mapping[str, Mapping[int, GroupKey]]:
        """By site and number: every group that a tunnel of the plan is handed over to."""
        tunnels = [tunnel for tunnels in self.plan.tunnels.values() for tunnel in tunnels]
        return self.with_keys({site: {} for site in self.sites}, *tunnels)

    @cached_property
    def through(self) -> Mapping[str, tuple[Carrier, ...]]:
        """By site: the tunnels of the plan and the detours that have an inner rule there."""
        carriers: dict[str, list[Carrier]] = {site: [] for site in self.sites}
        tunnels = (tunnel for tunnels in self.plan.tunnels.values() for tunnel in tunnels)
        for carrier in (*tunnels, *self.detours.values()):
            for site in carrier.route[1:]:
                carriers[site].append(carrier)
        return {site: tuple(found) for site, found in carriers.items()}

    def prepare(self) -> None:
        """Work out everything that is worked out once."""
        _ = self.detours, self.keys, self.through

    def first_detour(self, hop: Hop) -> Detour | None:
        """The detour of the whole WAN."""
        route = self.around.route(hop) if self.with_detours else None
        return None if route is None else self.detour(hop, 0, route)

    def detour(self, hop: Hop, variant: int, route: Route) -> Detour:
        """One with its number. InputError when the WAN has too many."""
        number = self._edge_numbers[hop[0]] * len(self.sites) + self.wiring.site_numbers[hop[1]]
        if number >= MAX_DETOURS:
            raise InputError("too many links and sites for detours", place=f"WAN {self.wan.name}", value=number)
        return Detour(hop, self.plan.version, number, variant, route)

    def with_keys(
        self, keys: Mapping[str, Mapping[int, GroupKey]], *tunnels: Tunnel
    ) -> Mapping[str, Mapping[int, GroupKey]]:
        """`keys` and those of more tunnels."""
        more: dict[str, dict[int, GroupKey]] = {}
        for key in dict.fromkeys(key for tunnel in tunnels for key in keys_of(tunnel.route)):
            more.setdefault(key.site, {})[number_of(key, self.wiring, self.plan.version)] = key
        return {site: {**known, **more.get(site, {})} for site, known in keys.items()}

    @cached_property
    def _edge_numbers(self) -> Mapping[Edge, int]:
        return {edge: number for number, edge in enumerate(sorted(self.wan.edges))}


@dataclass(frozen=True)
class State:
    """`wanted` is where each pair should be, `sent` and `confirmed` (tags) how far its ingress rule has come.

    `inner_sent` and `inner_confirmed` (tags by site) are the same for the inner rules of tunnels and detours,
    `groups_sent` and `groups_confirmed` (by site and number, the tag in the second bucket or "") for groups.
    """

    network: Network
    policy: Policy
    capacities_bps: Mapping[Edge, float]
    wanted: Mapping[Pair, Tunnel]
    tunnels: Mapping[Pair, tuple[Tunnel, ...]]
    """The plan's tunnels, and after them those that pins have added."""
    keys: Mapping[str, Mapping[int, GroupKey]]
    """Groups in use, by site and number."""
    detours: Mapping[Hop, Detour]
    """The detour that each hop should have."""
    stand_ins: Mapping[Hop, tuple[Detour, ...]] = field(default_factory=dict)
    """Detours that are not of the plan: for links that only pins take, and (variants above 0) while others are down."""
    detouring: bool = True
    """Whether groups have a second bucket."""
    pinned: frozenset[Pair] = frozenset()
    ports_down: frozenset[Edge] = frozenset()
    activity: Activity = field(default_factory=Activity)
    announced: Mapping[Pair, float] | None = None
    """Bytes by pair, as announced; None where demands are measured."""
    calm: Calm = field(default_factory=Calm)
    policy_fault: str = ""
    """What was wrong with the policy's last answer."""
    connected: frozenset[str] = frozenset()
    started: bool = False
    """Every rule has been confirmed once: from then on the policy is asked."""
    inner_sent: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inner_confirmed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sent: Mapping[Pair, str] = field(default_factory=dict)
    confirmed: Mapping[Pair, str] = field(default_factory=dict)
    groups_sent: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    groups_confirmed: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    groups_due: bool = True
    """Some group may have another second bucket than it should."""
    detours_due: bool = False
    """Links have changed since the detours were chosen."""
    strangers: Mapping[str, Held] = field(default_factory=dict)
    """By site: what was found there in our number spaces and is not wanted."""
    unused_since: Mapping[str, float] = field(default_factory=dict)
    """By tag (`STRANGERS` for all of those): when the last packet may have been sent that way."""

    @property
    def inner_settled(self) -> bool:
        """Every inner rule that was sent is confirmed."""
        return all(len(tags) == len(self.inner_confirmed.get(site, ())) for site, tags in self.inner_sent.items())

    @property
    def settled(self) -> bool:
        """Every rule and group that was sent is confirmed, and nothing is due."""
        return (
            not (self.groups_due or self.detours_due)
            and self.inner_settled
            and self.groups_confirmed == self.groups_sent
            and self.confirmed == self.sent
        )

    @property
    def placed(self) -> bool:
        """Every switch is there, and every pair is confirmed where it is wanted."""
        return (
            self.connected == self.network.sites
            and self.inner_settled
            and all(self.confirmed.get(pair) == tunnel.tag for pair, tunnel in self.wanted.items())
        )

    @property
    def ready(self) -> bool:
        """Every switch is there, and every rule and group that is wanted is confirmed."""
        return self.placed and self.settled

    @property
    def owes_detours(self) -> bool:
        """Whether a `DetoursDue` should follow."""
        return self.started and self.detours_due

    @property
    def rules(self) -> int:
        """How many rules the switches have confirmed, table-miss rules left out."""
        return sum(map(len, self.inner_confirmed.values())) + len(self.confirmed)

    @property
    def rules_by_site(self) -> dict[str, int]:
        """The same for each switch."""
        counts = {site: len(tags) for site, tags in self.inner_confirmed.items()}
        for source, _ in self.confirmed:
            counts[source] = counts.get(source, 0) + 1
        return counts

    @property
    def active(self) -> frozenset[Pair]:
        """Pairs that send: as announced, or as measured."""
        return self.activity.pairs if self.announced is None else frozenset(self.announced)

    @property
    def groups(self) -> int:
        """How many groups the switches have confirmed."""
        return sum(map(len, self.groups_confirmed.values()))

    @property
    def down(self) -> frozenset[Edge]:
        """Edges that carry nothing: a port that is down stops its link in both directions."""
        return frozenset(edge for a, b in self.ports_down for edge in ((a, b), (b, a)))

    @property
    def taken(self) -> frozenset[str]:
        """Tags that strangers use."""
        rules = (rule for held in self.strangers.values() for rule in held.rules)
        return frozenset(rule.match.eth_dst for rule in rules if rule.match.eth_dst is not None)

    def is_whole(self, carrier: Carrier) -> bool:
        """Every site of it but the first has confirmed its rule."""
        none: frozenset[str] = frozenset()
        return all(carrier.tag in self.inner_confirmed.get(site, none) for site in carrier.route[1:])

    @property
    def extra_tunnels(self) -> list[Tunnel]:
        """Those that pins have added to the plan."""
        plan = self.network.plan.tunnels
        return [tunnel for pair, tunnels in self.tunnels.items() for tunnel in tunnels[len(plan[pair]) :]]

    def carriers_through(self, site: str) -> list[Carrier]:
        """Every tunnel and detour that has, or is to have, an inner rule at a site."""
        stand_ins = (detour for detours in self.stand_ins.values() for detour in detours)
        extra = (carrier for carrier in (*self.extra_tunnels, *stand_ins) if site in carrier.route[1:])
        return [*self.network.through[site], *extra]
