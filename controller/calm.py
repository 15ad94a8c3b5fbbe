"""Which of the moves that a policy wants are made now: bad news at once, good news after a dwell, all within a budget.

Pure; `now` is an argument. Knows what a route carries and who sends, not why a policy prefers one; that a gain exceeds
the margin is the policy's to see to.

A pair's budget is a token bucket of `moves` = B tokens, one more every `move_every_s` = R, and every move takes one if
one is there. A pair leaves a path that still carries something only with a token: at most **B + t ÷ R** times in t
seconds, whatever happens. It leaves a dead path for a live one without. While one link flaps and nothing else changes,
no pair moves more than **2 · (B + t ÷ R) + 1** times in t seconds, for a dead link is only met again by a move back,
which takes a token. If that link is never up for as long as the dwell, that is **once**.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.view import Pair, Route, Routing, View, edges_of
from topologies.errors import InputError
from topologies.model import Edge

LOSS = 0.05
"""A path whose narrowest edge has lost more than this fraction since the last decision is bad news."""


@dataclass(frozen=True)
class CalmSettings:
    """`dwell_s`: how long a policy must want a move for good news; `moves` and `move_every_s`: the budget of a pair."""

    dwell_s: float = 0.5
    moves: int = 10
    move_every_s: float = 0.5

    def __post_init__(self) -> None:
        faults = (
            ("dwell_s", 0 <= self.dwell_s <= 86400, "from 0 to 86400 seconds"),
            ("moves", 1 <= self.moves <= 1_000_000, "from 1 to a million moves at once"),
            ("move_every_s", 0.001 <= self.move_every_s <= 86400, "from 0.001 to 86400 seconds"),
        )
        for name, good, remedy in faults:
            value = getattr(self, name)
            if not (math.isfinite(value) and good):
                raise InputError(f"{name} is out of range", place="calm", value=value, remedy=f"give {remedy}")


@dataclass(frozen=True)
class Wish:
    """What the policy wants for a pair and since when; `urgent` if bad news was the reason at any time since."""

    route: Route
    since: float
    urgent: bool


@dataclass(frozen=True)
class Tokens:
    """What was left of a pair's budget after its last move."""

    left: float
    at: float


@dataclass(frozen=True)
class Calm:
    """Wishes not granted yet, budgets that are not full, and the capacities that the last decision was made by."""

    settings: CalmSettings = CalmSettings()
    wishes: Mapping[Pair, Wish] = field(default_factory=dict)
    tokens: Mapping[Pair, Tokens] = field(default_factory=dict)
    capacities_bps: Mapping[Edge, float] = field(default_factory=dict)

    def after(self, view: View, wanted: Routing, now: float, at_once: bool = False) -> tuple[Calm, dict[Pair, Route]]:
        """The routing that is put into force of the one that is wanted, and what to remember.

        `at_once` makes every wish urgent: for news that is announced, exact and rare, as a new ring order.
        """
        moves = {pair: route for pair, route in wanted.items() if route != view.routing[pair]}
        urgent = set(moves) if at_once else self._urgent(view, moves)
        wishes = {pair: self._wish(pair, route, now, pair in urgent) for pair, route in moves.items()}
        granted = {pair for pair, wish in wishes.items() if self._is_granted(view, pair, wish, now)}
        spent = {pair: Tokens(max(0.0, self._tokens(pair, now) - 1), now) for pair in granted}
        waiting = {pair: wish for pair, wish in wishes.items() if pair not in granted}
        after = Calm(self.settings, waiting, {**self.tokens, **spent}, view.capacities_bps)
        return after, {**view.routing, **{pair: moves[pair] for pair in granted}}

    @property
    def due_at(self) -> float | None:
        """When the first of the wishes may be granted, if it lasts until then; None without any."""
        return min((self._due_at(pair, wish) for pair, wish in self.wishes.items()), default=None)

    def _due_at(self, pair: Pair, wish: Wish) -> float:
        due_at = wish.since + (0.0 if wish.urgent else self.settings.dwell_s)
        tokens = self.tokens.get(pair)
        if tokens is None:
            return due_at
        return max(due_at, tokens.at + max(0.0, 1 - tokens.left) * self.settings.move_every_s)

    def _wish(self, pair: Pair, route: Route, now: float, urgent: bool) -> Wish:
        before = self.wishes.get(pair)
        if before is None:
            return Wish(route, now, urgent)
        return Wish(route, before.since if before.route == route else now, urgent or before.urgent)

    def _is_granted(self, view: View, pair: Pair, wish: Wish, now: float) -> bool:
        if is_dead(view, view.routing[pair]) and not is_dead(view, wish.route):
            return True
        return now >= self._due_at(pair, wish)

    def _tokens(self, pair: Pair, now: float) -> float:
        tokens = self.tokens.get(pair)
        if tokens is None:
            return self.settings.moves
        return min(self.settings.moves, tokens.left + (now - tokens.at) / self.settings.move_every_s)

    def _urgent(self, view: View, moves: Routing) -> set[Pair]:
        """Pairs whose path has got worse, and those that send and make room for one of them."""
        urgent = {pair for pair in moves if self._is_worse(view, view.routing[pair])}
        frontier = urgent & view.active
        while frontier:
            taken = {edge for pair in frontier for edge in edges_of(moves[pair])}
            in_the_way = (pair for pair in moves if pair in view.active and pair not in urgent)
            frontier = {pair for pair in in_the_way if not taken.isdisjoint(edges_of(view.routing[pair]))}
            urgent = urgent | frontier
        return urgent

    def _is_worse(self, view: View, route: Route) -> bool:
        if not view.is_up(route):
            return True
        edges = edges_of(route)
        before = min(self.capacities_bps.get(edge, 0.0) for edge in edges)
        return _narrowest_bps(view, edges) < (1 - LOSS) * before


def is_dead(view: View, route: Route) -> bool:
    """Whether nothing passes on a route, as far as is known."""
    return not view.is_up(route) or _narrowest_bps(view, edges_of(route)) <= 0


def _narrowest_bps(view: View, edges: Iterable[Edge]) -> float:
    return min(view.capacities_bps[edge] for edge in edges)
