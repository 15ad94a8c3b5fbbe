"""What people run today: each pair on one of its equally short paths, by a hash, whatever they can carry. Pure."""

from __future__ import annotations

from hashlib import blake2b

from controller.view import Pair, Route, Routing, View

RELATIVE_TOLERANCE = 1e-9
"""Lengths that differ by less than this fraction are equal."""


class Ecmp:
    """Equal-cost multi-path routing (RFC 2992) with one flow a pair: of its shortest paths that are up, one by hash.

    Equal means equal in `view.lengths`, the metric of `shortest`. The hash is by highest random weight (Thaler &
    Ravishankar, 1998): a path that fails moves only the pairs on it, and they are back where they were when it is back.
    Knows neither capacities nor who sends. A pair keeps the path it has while every path is down.
    """

    def decide(self, view: View, now: float) -> Routing:
        """A route for each pair; the same for the same paths and links, on any machine."""
        return {pair: self._hashed(view, pair, routes) for pair, routes in view.candidates.items()}

    def _hashed(self, view: View, pair: Pair, routes: tuple[Route, ...]) -> Route:
        usable = [route for route in routes if view.is_up(route)]
        if not usable:
            return view.routing[pair]
        lengths = [view.length(route) for route in usable]
        limit = min(lengths) * (1 + RELATIVE_TOLERANCE)
        equal = [route for route, length in zip(usable, lengths, strict=True) if length <= limit]
        return max(equal, key=lambda route: (_weight(pair, route), route))


def _weight(pair: Pair, route: Route) -> bytes:
    return blake2b("\0".join((*pair, *route)).encode(), digest_size=8).digest()
