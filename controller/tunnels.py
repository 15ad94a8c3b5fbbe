"""Which paths are pre-installed for each pair, and the rules that make each one, switch by switch.

A tunnel is known by its tag, a MAC address: the ingress rewrites the destination to it, transit matches it alone, the
egress writes the host's own address back. Pure: a WAN and its wiring in, values out.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from controller.groups import GroupKey, first_key, number_of
from controller.kshortest import KShortest
from controller.rules import (
    MAX_PAIRS,
    MAX_TUNNELS_PER_PAIR,
    MAX_VERSION,
    PRIORITIES,
    Kind,
    Match,
    Output,
    OutputGroup,
    Rule,
    SetDestination,
    cookie,
    tag_of,
)
from controller.settings import Wiring
from controller.view import Pair, Route, edges_of
from topologies.errors import InputError
from topologies.geography import great_circle_km
from topologies.model import Edge, Wan


@dataclass(frozen=True)
class Tunnel:
    """A route of a pair that switches can hold. `number` counts within the pair."""

    pair: Pair
    pair_number: int
    number: int
    route: Route
    version: int = 1
    """Of the plan: rules of another plan can live beside these without being mistaken."""

    @cached_property
    def tag(self) -> str:
        """The MAC address that its packets carry between ingress and egress."""
        return tag_of(self.version, self.pair_number, self.number)


@dataclass(frozen=True)
class TunnelPlan:
    """Every pair's tunnels, best first; `lengths` is the metric of that order, by directed edge."""

    tunnels: Mapping[Pair, tuple[Tunnel, ...]]
    lengths: Mapping[Edge, float]
    version: int = 1

    def pair_of(self, number: int) -> Pair | None:
        """The pair of a number that came back in a cookie."""
        pairs = tuple(self.tunnels)
        return pairs[number] if number < len(pairs) else None


def plan_tunnels(wan: Wan, paths_per_pair: int) -> TunnelPlan:
    """k shortest loop-free paths for each ordered pair of DCs; for other neighbors the link between them, both ways."""
    lengths = edge_lengths(wan)
    shortest = KShortest(lengths)
    pairs = pairs_of(wan)
    if len(pairs) > MAX_PAIRS:
        raise InputError("too many pairs of sites for the tags", place=f"WAN {wan.name}", value=len(pairs))
    dcs = set(wan.dcs)
    routes = {pair: shortest.routes(*pair, paths_per_pair) if dcs.issuperset(pair) else [pair] for pair in pairs}
    version = version_of(wan, routes)
    tunnels = {
        pair: tuple(Tunnel(pair, number, index, route, version) for index, route in enumerate(routes[pair]))
        for number, pair in enumerate(pairs)
    }
    return TunnelPlan(tunnels, lengths, version)


def version_of(wan: Wan, routes: Mapping[Pair, list[Route]]) -> int:
    """From 1 on, by what is planned: a controller that starts again with the same plan finds its own rules by it.

    Two plans have the same one in one case of 4,095; then rules that differ are replaced as if somebody had changed
    them.
    """
    planned = repr((sorted(wan.edges), list(routes.items())))
    return 1 + zlib.crc32(planned.encode()) % MAX_VERSION


def pairs_of(wan: Wan) -> tuple[Pair, ...]:
    """Every ordered pair of DCs, then the ordered pairs of neighbors that are not both DCs (the fidelity gate's)."""
    between_dcs = [(a, b) for a in wan.dcs for b in wan.dcs if a != b]
    return tuple(dict.fromkeys([*between_dcs, *wan.edges]))


def edge_lengths(wan: Wan) -> dict[Edge, float]:
    """What "shortest" adds up: delay in seconds if every edge has one, else great-circle kilometres if every site has
    coordinates, else hops."""
    if all(properties.delay_s > 0 for properties in wan.edges.values()):
        return {edge: properties.delay_s for edge, properties in wan.edges.items()}
    kilometres = {(a, b): great_circle_km(wan.site(a), wan.site(b)) for a, b in wan.edges}
    if None not in kilometres.values():
        return {edge: length for edge, length in kilometres.items() if length is not None}
    return dict.fromkeys(wan.edges, 1.0)


def extra_tunnel(existing: Iterable[Tunnel], route: Route, taken: Collection[str] = ()) -> Tunnel:
    """One more tunnel for the pair of `existing`, with a tag that is not `taken`. InputError when tags are used up."""
    known = tuple(existing)
    for number in range(max(tunnel.number for tunnel in known) + 1, MAX_TUNNELS_PER_PAIR):
        tunnel = replace(known[0], number=number, route=route)
        if tunnel.tag not in taken:
            return tunnel
    pair = "-".join(known[0].pair)
    raise InputError("a pair has at most 256 paths", place=f"pair {pair}", remedy="pin to paths used before")


def check_route(wan: Wan, pair: Pair, route: Route) -> None:
    """InputError unless the route leads from the pair's first site to its second over links, passing no site twice."""
    place = f"path for {pair[0]}-{pair[1]}"
    if len(route) < 2 or (route[0], route[-1]) != pair:
        raise InputError("a path starts and ends with its pair", place=place, value=list(route))
    if len(set(route)) != len(route):
        raise InputError("a path passes each site once", place=place, value=list(route))
    for edge in edges_of(route):
        wan.link(edge)


def ingress_rule(tunnel: Tunnel, wiring: Wiring) -> Rule:
    """At the pair's first site: packets from its host to the other host enter the tunnel. One for each pair."""
    source, target = tunnel.pair
    return Rule(
        PRIORITIES[Kind.INGRESS],
        Match(eth_dst=wiring.hosts[target].mac, in_port=wiring.hosts[source].port),
        (SetDestination(tunnel.tag), OutputGroup(number_of(first_key(tunnel.route), wiring, tunnel.version))),
        cookie(Kind.INGRESS, tunnel.version, tunnel.pair_number),
    )


def inner_rules(tunnel: Tunnel, wiring: Wiring) -> dict[str, Rule]:
    """By site: the transit rule at each site between, and the egress rule at the last."""
    return {site: inner_rule(tunnel, site, wiring) for site in tunnel.route[1:]}


def inner_rule(tunnel: Tunnel, site: str, wiring: Wiring) -> Rule:
    """What packets of the tunnel meet at one of its sites but the first."""
    index = tunnel.route.index(site)
    if index == len(tunnel.route) - 1:
        kind = Kind.EGRESS
        host = wiring.hosts[site]
        actions = (SetDestination(host.mac), Output(host.port))
    else:
        kind = Kind.TRANSIT
        key = GroupKey((site, tunnel.route[index + 1]), tunnel.route[-1], tunnel.route[index - 1])
        actions = (OutputGroup(number_of(key, wiring, tunnel.version)),)
    rule_cookie = cookie(kind, tunnel.version, tunnel.pair_number, tunnel.number)
    return Rule(PRIORITIES[kind], Match(eth_dst=tunnel.tag), actions, rule_cookie)


def table_miss_rule(version: int) -> Rule:
    """What no other rule matches is dropped, by a rule of ours so that its counter shows how much that was."""
    return Rule(PRIORITIES[Kind.TABLE_MISS], Match(), (), cookie(Kind.TABLE_MISS, version))
