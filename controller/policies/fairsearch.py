"""Finds the assignment of flows to paths whose ascending shares are the largest, the smallest flow first. Pure.

Flows leave the narrowest edges, local search goes on from there, branch and bound then proves it or finds better. They
count their work in operations, not in time, so that the same problem has the same answer everywhere. The problem is
NP-hard in general (Kleinberg, Rabani & Tardos, 1999).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy
from numpy.typing import NDArray

from controller.policies.fairshare import (
    TOLERANCE,
    Floats,
    Indexes,
    Problem,
    fairest,
    is_fairer,
    level_of,
    sorted_shares,
)
from controller.policies.relaxation import largest_smallest_share, smallest_share_bound_bps

SEARCH_WORK = 100_000_000
"""Operations of the local search: assignments looked at × choices × edges × flows."""

PROOF_WORK = 720_000_000
"""The same for branch and bound. Of 300 random rings over the 12 sites of b4 with 4 paths a pair 286 took less."""

FEW = 100
"""Choices: 25 flows with 4 paths each. With so few, local search alone has nearly always found what is best."""

DIVING, WIDE, DIVES = 128, 512, 2
"""Partial assignments worked out at once: few on the first dives to a whole one, which may be the best, then many."""


@dataclass(frozen=True)
class Solution:
    """An assignment, its ascending shares in bit/s, and whether it is proved that no other is fairer.

    Where it is not, `smallest_bound_bps` is what no assignment's smallest share exceeds.
    """

    assignment: Indexes
    shares: Floats
    exact: bool
    smallest_bound_bps: float = numpy.inf


def solve(problem: Problem, start: Indexes) -> Solution:
    """The fairest assignment, or the fairest that was found before the work was used up; never worse than `start`.

    Of more than `FEW` choices, one with the largest smallest share is tried as a start as well.
    """
    starts, bound_bps = [start], numpy.inf
    if len(problem.uses) > FEW:
        relaxed = largest_smallest_share(problem)
        bound_bps = relaxed.bound_bps
        starts += [] if relaxed.assignment is None else [relaxed.assignment]
    unblocked = numpy.array([_unblocked(problem, each) for each in starts])
    found, shares = _climb(problem, unblocked[fairest(sorted_shares(problem, unblocked))])
    solution = _BranchAndBound(problem, found, shares).run()
    if solution.exact or bound_bps < numpy.inf:
        return replace(solution, smallest_bound_bps=float(solution.shares[0]) if solution.exact else bound_bps)
    return replace(solution, smallest_bound_bps=smallest_share_bound_bps(problem))


def _unblocked(problem: Problem, start: Indexes) -> Indexes:
    """Flows off the edge where shares are smallest, one after the other, as long as one finds more elsewhere.

    Each step is for the better: it leaves fewer flows at the smallest share, and takes none down to it. Cheap on WANs
    of any size, for it looks at the flows of one edge at a time.
    """
    assignment = start.copy()
    load = problem.uses[assignment].sum(0)
    while True:
        levels = level_of(problem.capacities, load)
        edge = int(levels.argmin())
        flows = numpy.flatnonzero(problem.uses[assignment, edge])
        choices = numpy.flatnonzero(numpy.isin(problem.flow_of, flows) & (problem.uses[:, edge] == 0))
        if not len(choices):
            return assignment
        own = problem.uses[assignment[problem.flow_of[choices]]]
        after = level_of(problem.capacities, load - own + problem.uses[choices])
        widths = numpy.where(problem.uses[choices] > 0, after, numpy.inf).min(1)
        best = int(widths.argmax())
        if widths[best] <= levels[edge] * (1 + TOLERANCE):
            return assignment
        flow = problem.flow_of[choices[best]]
        load += problem.uses[choices[best]] - problem.uses[assignment[flow]]
        assignment[flow] = choices[best]


def _climb(problem: Problem, start: Indexes) -> tuple[Indexes, Floats]:
    """Local search: the best single change, again and again, until none is for the better."""
    assignment, shares = start, sorted_shares(problem, start[None])[0]
    step_work = len(problem.uses) * problem.uses.size * problem.flows
    for _ in range(SEARCH_WORK // max(1, step_work)):
        changed = numpy.repeat(assignment[None], len(problem.uses), 0)
        changed[numpy.arange(len(changed)), problem.flow_of] = numpy.arange(len(changed))
        each = sorted_shares(problem, changed)
        best = fairest(each)
        if not is_fairer(each[best], shares):
            break
        assignment, shares = changed[best], each[best]
    return assignment, shares


class _BranchAndBound:
    """Places flow after flow, those in most contention first, and drops what cannot become fairer than the best.

    The bound of a partial assignment is its own max-min fair allocation, in which each flow not placed yet loads only
    the edges that all its paths share, and gets at most what its best path has left when every placed flow takes the
    smallest share. Restricting any allocation of all flows gives an allocation of this problem; water filling is the
    fairest of those. So a partial assignment whose bound is not fairer than the best has no completion that is.
    """

    def __init__(self, problem: Problem, best: Indexes, shares: Floats) -> None:
        self.problem, self.best, self.shares = problem, best, shares
        flows, edges = problem.flows, len(problem.capacities)
        self.choices = [
            choices[self._widths(problem.capacities[None])[0, choices] >= shares[0] * (1 - TOLERANCE)]
            for choices in problem.choices
        ]
        # A flow not placed yet is one more choice, with an edge of its own for the most that it can get.
        self.uses = numpy.zeros((len(problem.uses) + flows, edges + flows), dtype=numpy.float32)
        self.uses[: len(problem.uses), :edges] = problem.uses
        for flow, choices in enumerate(self.choices):
            self.uses[len(problem.uses) + flow, :edges] = problem.uses[choices].min(0)
            self.uses[len(problem.uses) + flow, edges + flow] = 1
        self.order = self._by_contention()

    def run(self) -> Solution:
        """Search depth first, a batch at a time."""
        left = PROOF_WORK // (self.uses.size * self.problem.flows)
        stack = [numpy.zeros((1, 0), dtype=numpy.intp)]
        for popped in itertools.count():
            if not stack:
                return Solution(self.best, self.shares, exact=True)
            partial = self._placed_next(stack.pop())
            left -= len(partial)
            if left < 0:
                return Solution(self.best, self.shares, exact=False)
            partial = self._promising(partial)
            if len(partial) and partial.shape[1] == self.problem.flows:
                self._take_best(partial)
            else:
                batch = DIVING if popped < DIVES * self.problem.flows else WIDE
                stack.extend(partial[i : i + batch] for i in reversed(range(0, len(partial), batch)))
        raise AssertionError("itertools.count ends")

    def _by_contention(self) -> list[int]:
        """Flows by how much of the expected load on their edges meets them, most first."""
        expected = numpy.array([self.problem.uses[choices].mean(0) for choices in self.choices])
        weight = expected.sum(0) / numpy.maximum(self.problem.capacities, 1e-9)
        return sorted(range(self.problem.flows), key=lambda flow: -float(expected[flow] @ weight))

    def _placed_next(self, partial: Indexes) -> Indexes:
        """Every partial assignment with every choice of the next flow. Columns follow `order`."""
        choices = self.choices[self.order[partial.shape[1]]]
        return numpy.hstack([numpy.repeat(partial, len(choices), 0), numpy.tile(choices, len(partial))[:, None]])

    def _take_best(self, whole: Indexes) -> None:
        assignments = whole[:, numpy.argsort(self.order)]
        shares = sorted_shares(self.problem, assignments)
        row = fairest(shares)
        self.best, self.shares = assignments[row], shares[row]

    def _widths(self, room: Floats) -> Floats:
        """For each row of room by edge: the narrowest edge of each choice."""
        padded = numpy.hstack([room, numpy.full((len(room), 1), numpy.inf)])
        return padded[:, self.problem.edge_lists].min(2)

    def _promising(self, partial: Indexes) -> Indexes:
        """Those whose bound is fairer than the best, the most promising first."""
        edges, smallest = len(self.problem.capacities), self.shares[0]
        taken = numpy.zeros((len(partial), len(self.uses)), dtype=numpy.float32)
        taken[numpy.arange(len(partial))[:, None], partial] = 1
        room = self.problem.capacities - smallest * (taken[:, : len(self.problem.uses)] @ self.problem.uses)
        fits = (room >= -smallest * TOLERANCE).all(1)
        partial, taken, room = partial[fits], taken[fits], room[fits]
        limits = numpy.full((len(partial), len(self.uses[0])), numpy.inf)
        limits[:, :edges] = self.problem.capacities
        waiting = self.order[partial.shape[1] :]
        if waiting:
            widths = self._widths(room)
            for flow in waiting:
                limits[:, edges + flow] = widths[:, self.choices[flow]].max(1)
                taken[:, len(self.problem.uses) + flow] = 1
            fits = limits[:, edges:].min(1) >= smallest * (1 - TOLERANCE)
            partial, taken, limits = partial[fits], taken[fits], limits[fits]
        place, level = self._where_fairer(taken, limits)
        rows = numpy.flatnonzero(place >= 0)
        return partial[rows[numpy.lexsort((-level[rows], place[rows]))]]

    def _where_fairer(self, taken: NDArray[numpy.float32], room: Floats) -> tuple[Indexes, Floats]:
        """For each row the first place in which its ascending shares exceed the best ones, and the share there.

        The place is -1 where they do not. Shares come out in ascending order, so most rows are decided early.
        """
        place = numpy.full(len(taken), -1)
        value = numpy.zeros(len(taken))
        rows, position = numpy.arange(len(taken)), numpy.zeros(len(taken), dtype=numpy.intp)
        load = (taken @ self.uses).astype(float)
        while len(rows):
            levels = level_of(room, load)
            level = levels.min(1)
            present = self.shares[position]
            above = level > present * (1 + TOLERANCE)
            place[rows[above]], value[rows[above]] = position[above], level[above]
            equal = ~above & (level >= present * (1 - TOLERANCE))
            rows, position, level, levels = rows[equal], position[equal], level[equal], levels[equal]
            taken, room, load = taken[equal], room[equal], load[equal]
            full = (levels <= (level * (1 + TOLERANCE))[:, None]).astype(numpy.float32)
            stopped = taken * ((full @ self.uses.T) > 0)
            position = position + stopped.sum(1).astype(numpy.intp)
            as_many = self.shares[position - 1] <= level * (1 + TOLERANCE)
            going = as_many & (position < self.problem.flows)
            rows, position, level = rows[going], position[going], level[going]
            taken, stopped, room, load = taken[going], stopped[going], room[going], load[going]
            released = stopped @ self.uses
            taken, load, room = taken - stopped, load - released, room - released * level[:, None]
        return place, value
