"""What a path policy sees of the network, and what it answers. Frozen values; knows no OpenFlow.

A policy is anything with `decide(view, now) -> Routing`, pure: same view, same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from topologies.model import Edge

Pair = tuple[str, str]
"""Ordered: from site, to site."""

Route = tuple[str, ...]
"""The sites that packets of a pair pass, both ends included."""

Routing = Mapping[Pair, Route]
"""One route for each pair."""


def edges_of(route: Route) -> tuple[Edge, ...]:
    """The directed edges that a route takes, in order."""
    return tuple(pairwise(route))


@dataclass(frozen=True)
class View:
    """The network as the controller knows it.

    `candidates` are each pair's usable tunnels, best first by the shortest-path order; `lengths` is that order's metric
    (seconds, kilometres or hops) by directed edge. `down` edges carry nothing. `active` pairs send, as measured or
    announced; where announced, `demands_bytes` says how much each sends in one collective.
    """

    capacities_bps: Mapping[Edge, float]
    down: frozenset[Edge]
    candidates: Mapping[Pair, tuple[Route, ...]]
    lengths: Mapping[Edge, float]
    routing: Routing
    active: frozenset[Pair]
    demands_bytes: Mapping[Pair, float] = field(default_factory=dict)

    def is_up(self, route: Route) -> bool:
        """Whether no edge of the route is known to be down."""
        return self.down.isdisjoint(edges_of(route))

    def length(self, route: Route) -> float:
        """Sum of the metric over the route."""
        return sum(self.lengths[edge] for edge in edges_of(route))


class Policy(Protocol):
    """The small interface behind which path policies live."""

    def decide(self, view: View, now: float) -> Routing:
        """A route for every pair of `view.candidates`; `now` is in seconds of the controller's clock."""
        ...
