"""Finds the assignment of flows to paths whose ascending shares are the largest, the smallest flow first. Pure.

Flows leave the narrowest edges, local search goes on from there, branch and bound then proves it or finds better (both
in `fairloops`). They count their work in operations, not in time, so that the same problem has the same answer
everywhere. The problem is NP-hard in general (Kleinberg, Rabani & Tardos, 1999).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy

from controller.policies.fairloops import TOLERANCE, Floats, Indexes, climb, prove, water_fill
from controller.policies.fairshare import Problem, fairest, level_of, sorted_shares
from controller.policies.relaxation import largest_smallest_share, smallest_share_bound_bps

SEARCH_WORK = 20_000_000
"""Operations of the local search: choices × flows × (edges and paths looked at)."""

PROOF_WORK = 10_000_000
"""Edges that branch and bound looks at."""

FEW = 100
"""Choices: 25 flows with 4 paths each. With so few, branch and bound finds what is best from anywhere."""


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
    solution = _searched(problem, unblocked[fairest(sorted_shares(problem, unblocked))])
    if solution.exact:
        bound_bps = float(solution.shares[0])
    elif bound_bps == numpy.inf:
        bound_bps = smallest_share_bound_bps(problem)
    return replace(solution, smallest_bound_bps=bound_bps)


def warm_up() -> None:
    """Load what is compiled, or compile it the first time, which takes some 10 s."""
    two_paths_each = numpy.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=numpy.float32)
    solve(Problem(two_paths_each, numpy.array([0, 0, 1, 1]), numpy.array([2.0, 1.0])), numpy.array([0, 2]))


def _searched(problem: Problem, start: Indexes) -> Solution:
    """By local search, and then by branch and bound, from a start."""
    assignment, shares = start.copy(), numpy.empty(problem.flows)
    if not problem.flows:
        return Solution(assignment, shares, exact=True)
    paths = problem.paths
    water_fill(paths, assignment, shares)
    step_work = len(paths.edges) * problem.flows * (len(paths.capacities) + int(paths.sizes.sum()))
    climb(paths, assignment, shares, SEARCH_WORK // step_work)
    if problem.flows * paths.edges.size > PROOF_WORK:
        return Solution(assignment, shares, exact=False)
    exact = prove(paths, _contention(problem), assignment, shares, PROOF_WORK)
    return Solution(assignment, shares, exact)


def _contention(problem: Problem) -> Floats:
    """For each flow from 2 up, by how much of the expected load on its edges meets it: the most has the largest."""
    expected = numpy.array([problem.uses[choices].mean(0) for choices in problem.choices])
    met = expected @ (expected.sum(0) / numpy.maximum(problem.capacities, 1e-9))
    weight = numpy.empty(problem.flows)
    weight[numpy.argsort(met, kind="stable")] = 2.0 * numpy.arange(1, problem.flows + 1)
    return weight


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
