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
        room_bps = dict(view.capacities_bps)
        for pair in view.candidates:
            if pair in view.active:
                routing[pair] = widest_route(view, pair, room_bps, self.margin)
                for edge in edges_of(routing[pair]):
                    load[edge] += 1
                    room_bps[edge] = view.capacities_bps[edge] / (load[edge] + 1)
        return routing | idle_routing(view, self.margin)


def idle_routing(view: View, margin: float) -> dict[Pair, Route]:
    """Every pair that does not send on its widest path, as if nobody sent."""
    idle = (pair for pair in view.candidates if pair not in view.active)
    return {pair: widest_route(view, pair, view.capacities_bps, margin) for pair in idle}


def widest_route(view: View, pair: Pair, room_bps: Mapping[Edge, float], margin: float) -> Route:
    """The path of a pair with the most room on its narrowest edge; the present one unless that gains over the margin.

    The present one as well while every path is down.
    """
    present = view.routing[pair]
    usable = view.candidates[pair]
    if view.down:
        usable = tuple(route for route in usable if view.is_up(route))
    if not usable:
        return present
    widths = [min(map(room_bps.__getitem__, edges_of(route))) for route in usable]
    widest = max(widths)
    if view.is_up(present) and widest <= min(map(room_bps.__getitem__, edges_of(present))) * (1 + margin):
        return present
    tied = (route for route, width in zip(usable, widths, strict=True) if width == widest)
    return min(tied, key=lambda route: (len(route), view.length(route), route))
