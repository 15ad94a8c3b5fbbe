"""All sending pairs together: the smallest flow's share as large as it can be, then the next one's, and so on. Pure.

Exact on small WANs. On large ones, where the work of `fairsearch` is used up before the proof is complete, the smallest
share is near `Solution.smallest_bound_bps`, which no assignment exceeds, and the others are a local optimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from controller.policies.fairloops import Indexes
from controller.policies.fairsearch import solve
from controller.policies.fairshare import Problem, is_fairer, level_of, problem_of, sorted_shares
from controller.policies.widest import idle_routing
from controller.view import Pair, Route, Routing, View


@dataclass(frozen=True)
class MaxMin:
    """Lexicographic max-min fair routing of the active pairs, each on one path (see `fairshare` for what a share is).

    Pairs whose path is down are always placed anew. The others move only if, compared in ascending order, the first
    share that changes by more than `margin` (a fraction) grows; and of equally fair routings one that keeps more pairs
    where they are is taken. Idle pairs are placed as `Widest` places them.
    """

    margin: float = 0.1

    def decide(self, view: View, now: float) -> Routing:
        """A route for each pair. With unchanged capacities and activity a second decision equals the first."""
        active = {pair: view.routing[pair] for pair in view.candidates if pair in view.active}
        usable = {pair: [route for route in view.candidates[pair] if view.is_up(route)] for pair in active}
        placed = self._placed(view, {pair: routes for pair, routes in usable.items() if routes})
        return idle_routing(view, self.margin) | active | placed

    def _placed(self, view: View, candidates: Mapping[Pair, Sequence[Route]]) -> dict[Pair, Route]:
        if not candidates:
            return {}
        problem = problem_of(list(candidates.values()), view.capacities_bps)
        labels = [(pair, route) for pair, routes in candidates.items() for route in routes]
        numbers = {label: number for number, label in enumerate(labels)}
        present = [numbers.get((pair, view.routing[pair])) for pair in candidates]
        chosen = _repaired(problem, present)
        best = solve(problem, chosen)
        if is_fairer(best.shares, sorted_shares(problem, chosen[None])[0], self.margin):
            chosen = _nearest(problem, best.assignment, present)
        return dict(labels[choice] for choice in chosen)


def _repaired(problem: Problem, present: list[int | None]) -> Indexes:
    """The present assignment, and those whose path is gone one after the other where their share is the largest."""
    assignment = numpy.array([-1 if choice is None else choice for choice in present])
    load = problem.uses[assignment[assignment >= 0]].sum(0)
    for flow in numpy.flatnonzero(assignment < 0):
        level = level_of(problem.capacities, load + 1.0)
        choices = problem.choices[flow]
        shares = [level[problem.uses[choice] > 0].min() for choice in choices]
        assignment[flow] = choices[int(numpy.argmax(shares))]
        load = load + problem.uses[assignment[flow]]
    return assignment


def _nearest(problem: Problem, assignment: Indexes, present: list[int | None]) -> Indexes:
    """An assignment as fair as this one with flows put back to where they are, as long as one can be."""
    while True:
        away = [flow for flow, at in enumerate(present) if at is not None and at != assignment[flow]]
        if not away:
            return assignment
        back = numpy.repeat(assignment[None], len(away), 0)
        back[numpy.arange(len(away)), away] = [present[flow] for flow in away]
        shares = sorted_shares(problem, numpy.vstack([assignment[None], back]))
        equal = [row for row in range(len(away)) if not is_fairer(shares[0], shares[row + 1])]
        if not equal:
            return assignment
        assignment = back[equal[0]]
