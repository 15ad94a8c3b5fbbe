"""The smallest share alone, as a linear program: its bound, and on WANs of any size an assignment that has it. Pure.

In z = 1 ÷ (smallest share) the problem is linear: choose paths so that what an edge carries, in flows, is at most its
capacity × z. Split flows give the bound, whole flows an assignment (HiGHS, branch and cut). What other shares are
besides is not looked at. Imports scipy, which takes half a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy
from scipy.optimize import Bounds, LinearConstraint, milp

from controller.policies.fairloops import Floats, Indexes
from controller.policies.fairshare import Problem

MAX_NODES = 200
"""Of branch and cut; the root was enough for 400 flows over 100 sites."""


@dataclass(frozen=True)
class Relaxed:
    """An assignment (None if none was found), and what no assignment's smallest share exceeds, in bit/s."""

    assignment: Indexes | None
    bound_bps: float


def smallest_share_bound_bps(problem: Problem) -> float:
    """No assignment gives its smallest flow more than this: the optimum where flows may split over their paths."""
    return _solved(problem, whole=False).bound_bps


def largest_smallest_share(problem: Problem) -> Relaxed:
    """The assignment whose smallest share is the largest, or near; `bound_bps` says how near."""
    return _solved(problem, whole=True)


def _solved(problem: Problem, whole: bool) -> Relaxed:
    dead = problem.uses @ (problem.capacities <= 0) > 0
    if any(dead[choices].all() for choices in problem.choices):
        return Relaxed(None, 0.0)
    edges, scale = problem.capacities > 0, problem.capacities.max()
    carried = numpy.hstack([problem.uses.T[edges], -problem.capacities[edges, None] / scale])
    splits = numpy.zeros((problem.flows, len(problem.uses) + 1))
    splits[problem.flow_of, numpy.arange(len(problem.uses))] = 1
    cost = numpy.zeros(len(problem.uses) + 1)
    cost[-1] = 1
    found = milp(
        cost,
        integrality=numpy.append(numpy.full(len(problem.uses), int(whole)), 0),
        bounds=Bounds(0, numpy.append(numpy.where(dead, 0.0, 1.0), numpy.inf)),
        constraints=[LinearConstraint(carried, -numpy.inf, 0), LinearConstraint(splits, 1, 1)],
        options={"node_limit": MAX_NODES, "mip_rel_gap": 1e-6},
    )
    z = found.mip_dual_bound if whole else found.fun
    assignment = None if found.x is None else _rounded(problem, found.x[:-1])
    return Relaxed(assignment, numpy.inf if z is None or z <= 0 else float(scale / z))


def _rounded(problem: Problem, parts: Floats) -> Indexes:
    """Each flow on the path that takes the largest part of it."""
    return numpy.array([choices[int(parts[choices].argmax())] for choices in problem.choices])
