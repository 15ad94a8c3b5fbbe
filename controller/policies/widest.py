"""Each pair on the path with the most room, one after the other; pairs that send count as load for the next. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from controller.view import Pair, Route, Routing, View, edges_of
from topologies.model import Edge


@dataclass(frozen=True)
class Widest:
    """Greedy: an active pair takes the path of largest min over its edges of capacity ÷ (active pairs on it + 1).

    Idle pairs take the plain widest path. A pair leaves a path that is up only for a share larger by more than `margin`
    (a fraction), and keeps the path it has while every path is down. Ties: fewer hops, then shorter, then by names.
    With unchanged capacities and activity a second decision equals the first: there is no oscillation.
    """

    margin: float = 0.1

    def decide(self, view: View, now: float) -> Routing:
        """A route for each pair; active pairs are placed first, in the order of `view.candidates`."""
        routing: dict[Pair, Route] = {}
        load: Counter[Edge] = Counter()
        for pair in view.candidates:
            if pair in view.active:
                routing[pair] = self._place(view, pair, load)
                load.update(edges_of(routing[pair]))
        idle: Counter[Edge] = Counter()
        routing.update({pair: self._place(view, pair, idle) for pair in view.candidates if pair not in view.active})
        return routing

    def _place(self, view: View, pair: Pair, load: Mapping[Edge, int]) -> Route:
        present = view.routing[pair]
        usable = [route for route in view.candidates[pair] if view.is_up(route)]
        if not usable:
            return present

        def _share_bps(route: Route) -> float:
            return min(view.capacities_bps[edge] / (load[edge] + 1) for edge in edges_of(route))

        best = min(usable, key=lambda route: (-_share_bps(route), len(route), view.length(route), route))
        if view.is_up(present) and _share_bps(best) <= _share_bps(present) * (1 + self.margin):
            return present
        return best
