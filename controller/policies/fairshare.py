"""Max-min fair shares of flows that each take one of a few paths: the arithmetic behind `maxmin`. Pure, on arrays.

A flow's share is its rate under max-min fairness (water filling; Bertsekas & Gallager, Data Networks, 6.5.2): all rates
rise together, and those of a link that is full stop. Many assignments of flows to paths are worked out at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy
from numpy.typing import NDArray

from controller.policies.fairloops import TOLERANCE, Floats, Indexes, Paths, fill_each
from controller.view import Route, edges_of
from topologies.model import Edge


@dataclass(frozen=True)
class Problem:
    """Flows, the paths that each may take, and what the edges carry.

    A *choice* is one of all paths of all flows, by number; `uses[choice, edge]` is 1 where its path takes the edge.
    `flow_of[choice]` is its flow. An *assignment* is an array of one choice for each flow, in the order of the flows.
    """

    uses: NDArray[numpy.float32]
    flow_of: Indexes
    capacities: Floats

    @property
    def flows(self) -> int:
        """How many flows there are."""
        return int(self.flow_of[-1]) + 1 if len(self.flow_of) else 0

    @cached_property
    def first(self) -> Indexes:
        """For each flow its first choice, and after the last flow how many choices there are."""
        return numpy.searchsorted(self.flow_of, numpy.arange(self.flows + 1))

    @cached_property
    def choices(self) -> list[Indexes]:
        """For each flow its choices."""
        return [numpy.flatnonzero(self.flow_of == flow) for flow in range(self.flows)]

    @cached_property
    def edge_lists(self) -> Indexes:
        """For each choice the numbers of its edges, filled up with the number of edges."""
        width = int(self.uses.sum(1).max(initial=0))
        lists = numpy.full((len(self.uses), width), len(self.capacities), dtype=numpy.intp)
        for choice, row in enumerate(self.uses):
            edges = numpy.flatnonzero(row)
            lists[choice, : len(edges)] = edges
        return lists

    @cached_property
    def paths(self) -> Paths:
        """The same for compiled code."""
        sizes = self.uses.sum(1).astype(numpy.intp)
        return Paths(self.edge_lists, sizes, self.uses > 0, self.first, self.capacities)


def problem_of(candidates: Sequence[Sequence[Route]], capacities_bps: Mapping[Edge, float]) -> Problem:
    """The problem of these flows; choices are numbered flow by flow in the order of `candidates`.

    Edges that exactly the same choices take are one: the narrowest of them.
    """
    routes = [route for each in candidates for route in each]
    flow_of = numpy.repeat(numpy.arange(len(candidates)), [len(each) for each in candidates])
    takers: dict[Edge, list[int]] = {}
    for choice, route in enumerate(routes):
        for edge in edges_of(route):
            takers.setdefault(edge, []).append(choice)
    narrowest: dict[tuple[int, ...], float] = {}
    for edge, choices in takers.items():
        key = tuple(choices)
        narrowest[key] = min(capacities_bps[edge], narrowest.get(key, numpy.inf))
    uses = numpy.zeros((len(routes), len(narrowest)), dtype=numpy.float32)
    for number, choices in enumerate(narrowest):
        uses[list(choices), number] = 1
    return Problem(uses, flow_of, numpy.array(list(narrowest.values()), dtype=float))


def level_of(room: Floats, load: Floats) -> Floats:
    """Room ÷ load by edge; infinite where there is no load."""
    return numpy.divide(room, load, out=numpy.full(load.shape, numpy.inf), where=load > 0)


def sorted_shares(problem: Problem, assignments: Indexes) -> Floats:
    """The shares of all flows under each assignment, ascending, one row for each. Bit/s."""
    shares = numpy.zeros(assignments.shape)
    fill_each(problem.paths, numpy.ascontiguousarray(assignments), shares)
    return shares


def is_fairer(shares: Sequence[float] | Floats, than: Sequence[float] | Floats, margin: float = TOLERANCE) -> bool:
    """Whether the first ascending share that differs by more than the margin (a fraction) is the larger one."""
    for one, other in zip(shares, than, strict=True):
        if one > other * (1 + margin):
            return True
        if other > one * (1 + margin):
            return False
    return False


def fairest(shares: Floats) -> int:
    """The row of ascending shares that no other row is fairer than; of equal ones the first."""
    rows = numpy.arange(len(shares))
    for column in shares.T:
        rows = rows[column[rows] >= column[rows].max() * (1 - TOLERANCE)]
    return int(rows[0])
