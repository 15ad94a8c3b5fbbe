"""Detours: how packets of a tunnel get to its end when the link just ahead of them is down.

A detour belongs to a directed link and a destination. It starts at the head end of the link, has a tag of its own, and
ends where the tunnel would have ended: nothing has to find back into the tunnel. It is one simple path, its rules send
to ports and never to groups, and so no failure, and no number of failures, makes a packet loop. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from controller.groups import GroupKey, number_of
from controller.kshortest import whole_lengths
from controller.rules import (
    PRIORITIES,
    Action,
    Bucket,
    Group,
    Kind,
    Match,
    Output,
    OutputBack,
    Rule,
    SetDestination,
    cookie,
    detour_tag_of,
)
from controller.settings import Wiring
from controller.view import Route
from topologies.model import Edge

Hop = tuple[Edge, str]
"""What a detour is for: a directed link, and the site where the packets are to end."""


@dataclass(frozen=True)
class Detour:
    """`variant` 0 is the detour of the WAN with all other links up; others stand in while that one is broken."""

    hop: Hop
    version: int
    number: int
    variant: int
    route: Route

    @cached_property
    def tag(self) -> str:
        """The MAC address that its packets carry."""
        return detour_tag_of(self.version, self.number, self.variant)


class Around:
    """Finds ways around links: shortest by `lengths`, which holds every directed edge of the WAN; ties by names."""

    def __init__(self, lengths: Mapping[Edge, float]) -> None:
        self._out: dict[str, dict[str, int]] = {}
        for (a, b), length in sorted(whole_lengths(lengths).items()):
            self._out.setdefault(a, {})[b] = length
        self._found: dict[tuple[Edge, frozenset[Edge]], dict[str, Route]] = {}

    def route(self, hop: Hop, down: frozenset[Edge] = frozenset()) -> Route | None:
        """From the head end of the link to the destination without the link and without edges that are `down`.

        It leaves out the site that the link leads to, which may be what has failed, if there is a way; None if the link
        is the only way.
        """
        edge, target = hop
        if (edge, down) not in self._found:
            if len(self._found) > 10_000:
                self._found.clear()
            self._found[edge, down] = self._routes(edge, down)
        return self._found[edge, down].get(target)

    def _routes(self, edge: Edge, down: frozenset[Edge]) -> dict[str, Route]:
        closed = down | {edge, edge[::-1]}
        return {**self._shortest(edge[0], closed, ()), **self._shortest(edge[0], closed, edge[1:])}

    def _shortest(self, source: str, closed: Collection[Edge], avoided: Collection[str]) -> dict[str, Route]:
        """Dijkstra (1959), to every site that can be reached."""
        routes: dict[str, Route] = {}
        queue: list[tuple[int, Route]] = [(0, (source,))]
        while queue:
            length, route = heapq.heappop(queue)
            here = route[-1]
            if here in routes:
                continue
            routes[here] = route
            for after, weight in self._out[here].items():
                if after not in routes and after not in avoided and (here, after) not in closed:
                    heapq.heappush(queue, (length + weight, (*route, after)))
        return routes


def detour_rules(detour: Detour, wiring: Wiring) -> dict[str, Rule]:
    """By site: the transit rule at each site between, and the egress rule at the last."""
    return {site: detour_rule(detour, site, wiring) for site in detour.route[1:]}


def detour_rule(detour: Detour, site: str, wiring: Wiring) -> Rule:
    """What packets of the detour meet at one of its sites but the first."""
    index = detour.route.index(site)
    actions: tuple[Action, ...]
    if index == len(detour.route) - 1:
        kind = Kind.DETOUR_EGRESS
        host = wiring.hosts[site]
        actions = (SetDestination(host.mac), Output(host.port))
    else:
        kind = Kind.DETOUR_TRANSIT
        actions = (Output(wiring.ports[site, detour.route[index + 1]]),)
    rule_cookie = cookie(kind, detour.version, detour.number, detour.variant)
    return Rule(PRIORITIES[kind], Match(eth_dst=detour.tag), actions, rule_cookie)


def group_of(key: GroupKey, detour: Detour | None, wiring: Wiring, version: int) -> Group:
    """The port of the link as long as it is live, and then the detour; without a detour the port, live or not."""
    port = wiring.ports[key.edge]
    number = number_of(key, wiring, version)
    if detour is None:
        return Group(number, (Bucket(None, (Output(port),)),))
    first = wiring.ports[key.site, detour.route[1]]
    leave: Action = OutputBack() if detour.route[1] == key.previous else Output(first)
    return Group(number, (Bucket(port, (Output(port),)), Bucket(first, (SetDestination(detour.tag), leave))))
