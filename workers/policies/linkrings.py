"""The ring whose slowest link is fastest when ring edges share links: max over orders of min over links of c_l / k_l.

k_l is the number of ring edges that cross link l in its direction. Pure and exact: branch and bound for a few ranks,
else circuits in CP-SAT under a threshold, between a bound from the linear relaxation and the best ring so far. The
limit of the search is deterministic, so that the same network gives the same ring on every machine.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topologies.model import Edge
from workers.network import Network, Order, Pair, edges_of, ring_bps, ring_latency_s
from workers.policies.linksearch import good_ring

SMALL_RANKS = 7
"""Up to here branch and bound answers in milliseconds, and OR-tools need not be imported (1 s)."""

LIMIT = 2.0
"""CP-SAT's deterministic time for one search: about seconds on a machine of today."""

TIE_LIMIT = 0.2
"""The part of it that may go into finding the least delay among equally fast rings."""

CUT_ROUNDS = 6
CUTS_IN_VAIN = 2
_UNITS = 10**6

_TIGHT = 1 + 1e-9


@dataclass(frozen=True)
class SharedRing:
    """An order, its rate in bit/s, and what no order can exceed: proven best where both are equal."""

    order: Order
    rate_bps: float
    bound_bps: float

    @property
    def is_proven(self) -> bool:
        """Whether no ring is faster."""
        return self.bound_bps <= self.rate_bps * _TIGHT

    @property
    def gap(self) -> float:
        """How much faster a ring might be at most (0.02 = 2 %)."""
        return 0.0 if self.is_proven else self.bound_bps / self.rate_bps - 1 if self.rate_bps > 0 else math.inf


def prepare(ranks: int) -> None:
    """Import what a search over so many ranks needs, so that the first decision does not pay for it (1 s)."""
    if ranks > SMALL_RANKS:
        from ortools.sat.python import cp_model
        from scipy.optimize import linprog

        del cp_model, linprog


def best_ring(network: Network, ranks: int, current: Order, limit: float = LIMIT) -> SharedRing:
    """A fastest ring, of those the one of least delay, beginning with the first rank of `current`.

    `limit` is deterministic time of CP-SAT; where it runs out the ring is the best found and `bound_bps` says how good
    it may get. The current order is kept in a tie without a gain in delay.
    """
    if ranks <= 2:
        rate = ring_bps(network, current)
        return SharedRing(current, rate, rate)
    found = _enumerated(network, current) if ranks <= SMALL_RANKS else _Search(network, current, limit).result()
    place = found.order.index(current[0])
    return SharedRing((*found.order[place:], *found.order[:place]), found.rate_bps, found.bound_bps)


def _enumerated(network: Network, current: Order) -> SharedRing:
    """Branch and bound: a path is left as soon as a link on it is slower than the best ring so far."""
    best, best_bps, best_delay = current, ring_bps(network, current), ring_latency_s(network, current)
    crossing: dict[Edge, int] = {}
    path = [current[0]]

    def step(pair: Pair, rate: float, then: Callable[[float], None]) -> None:
        edges = network.routes.get(pair)
        if not edges:
            return
        for edge in edges:
            crossing[edge] = crossing.get(edge, 0) + 1
        rate = min(rate, *(network.capacity_bps(edge) / crossing[edge] for edge in edges))
        if rate > 0 and rate >= best_bps:
            then(rate)
        for edge in edges:
            crossing[edge] -= 1

    def close(rate: float) -> None:
        nonlocal best, best_bps, best_delay
        delay = ring_latency_s(network, path)
        if rate > best_bps or delay < best_delay - 1e-12:
            best, best_bps, best_delay = tuple(path), rate, delay

    def extend(rate: float) -> None:
        if len(path) == len(current):
            step((path[-1], path[0]), rate, close)
            return
        for rank in current:
            if rank not in path:
                path.append(rank)
                step((path[-2], rank), rate, extend)
                path.pop()

    extend(math.inf)
    return SharedRing(best, best_bps, best_bps)


class _Search:
    """Thresholds T from above and below: is there a circuit in which link l is crossed at most ⌊c_l / T⌋ times?"""

    def __init__(self, network: Network, current: Order, limit: float) -> None:
        self._network, self._limit = network, limit
        self._ranks = len(current)
        self._pairs = [pair for pair in sorted(network.routes) if network.pair_bps(pair) > 0]
        self._crossing: dict[Edge, list[int]] = {}
        for index, pair in enumerate(self._pairs):
            for edge in network.routes[pair]:
                self._crossing.setdefault(edge, []).append(index)
        self._best = good_ring(network, current)

    def result(self) -> SharedRing:
        """Bisects what the pace can be between the ring there is and the bound of the relaxation.

        `found` is the highest rate reached, `open_` the lowest not tried above it, `refuted` the lowest proven out of
        reach (indices of `rates`); an attempt that ran out of time only moves `open_`.
        """
        start_bps = ring_bps(self._network, self._best)
        rates = self._rates(start_bps)
        found, open_, refuted = -1, len(rates), len(rates)
        while found + 1 < open_:
            at = (found + open_) // 2
            answer = self._circuit(rates[at])
            if isinstance(answer, tuple):
                self._best = answer
                found = bisect_right(rates, ring_bps(self._network, answer) * _TIGHT) - 1
                continue
            if answer is _Answer.IMPOSSIBLE:
                refuted = at
            open_ = at
        rate = ring_bps(self._network, self._best)
        if any((self._network.latencies_s or {}).values()) and rate > 0:
            self._best = self._quickest(rate)
        return SharedRing(self._best, rate, rates[refuted - 1] if refuted - 1 > found else rate)

    def _rates(self, above_bps: float) -> list[float]:
        """What a ring's pace can be: every c_l / k between what there is and what the relaxation allows, sorted."""
        bound = self._relaxed_bps() * _TIGHT
        every = {
            self._network.capacity_bps(edge) / count
            for edge, crossing in self._crossing.items()
            for count in range(1, min(len(crossing), self._ranks) + 1)
        }
        return sorted(rate for rate in every if above_bps * _TIGHT < rate <= bound)

    def _relaxed_bps(self) -> float:
        """Upper bound from the linear relaxation, edges taken in part, with every subset left at least once.

        Subsets are added as the solution shows them (Dantzig, Fulkerson and Johnson 1954), `CUT_ROUNDS` times at most.
        """
        subsets: list[set[int]] = []
        bound, in_vain = math.inf, 0
        reached_bps = ring_bps(self._network, self._best)
        for _ in range(CUT_ROUNDS):
            before, (bound, taken) = bound, self._relaxed(subsets)
            in_vain = in_vain + 1 if bound > before * (1 - 1e-6) else 0
            if bound <= reached_bps * _TIGHT or in_vain >= CUTS_IN_VAIN:
                break
            left = _left_too_seldom(self._ranks, self._pairs, taken)
            if not left:
                break
            subsets += left
        return bound

    def _relaxed(self, subsets: Sequence[set[int]]) -> tuple[float, NDArray[np.float64]]:
        """The bound in bit/s, and how much of each pair it takes. Variables: the pairs, then 1 / rate in `scale`."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix, lil_matrix

        n, count = self._ranks, len(self._pairs)
        pairs = np.array(self._pairs, dtype=int).reshape(count, 2)
        degrees = csr_matrix(
            (np.ones(2 * count), (np.concatenate([pairs[:, 0], n + pairs[:, 1]]), np.tile(np.arange(count), 2))),
            shape=(2 * n, count + 1),
        )
        edges = list(self._crossing)
        if not edges:
            return 0.0, np.zeros(0)
        scale = max(map(self._network.capacity_bps, edges), default=1.0)
        links = lil_matrix((len(edges) + len(subsets), count + 1))
        for row, edge in enumerate(edges):
            links.rows[row] = [*self._crossing[edge], count]
            links.data[row] = [*([1.0] * len(self._crossing[edge])), -self._network.capacity_bps(edge) / scale]
        for row, subset in enumerate(subsets, len(edges)):
            inside = np.isin(pairs, list(subset))
            links.rows[row] = list(map(int, np.flatnonzero(inside[:, 0] & ~inside[:, 1])))
            links.data[row] = [-1.0] * len(links.rows[row])
        solved = linprog(
            np.append(np.zeros(count), 1.0),
            A_ub=links.tocsr(),
            b_ub=np.append(np.zeros(len(edges)), -np.ones(len(subsets))),
            A_eq=degrees,
            b_eq=np.ones(2 * n),
            bounds=[*([(0, 1)] * count), (0, None)],
            method="highs",
        )
        if not solved.success or solved.fun <= 0:
            return 0.0, np.zeros(count)
        return scale / solved.fun, solved.x[:count]

    def _circuit(self, rate_bps: float) -> Order | _Answer:
        model, literals = self._model(rate_bps)
        return self._solved(model, literals)

    def _quickest(self, rate_bps: float) -> Order:
        """Of the rings at that rate the one of least delay, or the best that `TIE_LIMIT` allows."""
        self._limit = min(self._limit, TIE_LIMIT)
        model, literals = self._model(rate_bps)
        micros = {pair: round(1e6 * (self._network.latencies_s or {}).get(pair, 0.0)) for pair in literals}
        model.minimize(sum(micros[pair] * literal for pair, literal in literals.items()))
        for pair, literal in literals.items():
            model.add_hint(literal, pair in edges_of(self._best))
        answer = self._solved(model, literals)
        better = isinstance(answer, tuple) and (
            ring_latency_s(self._network, answer) < ring_latency_s(self._network, self._best)
        )
        return answer if better else self._best  # type: ignore[return-value]

    def _model(self, rate_bps: float) -> tuple[Any, dict[Pair, Any]]:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        allowed = {edge: int(self._network.capacity_bps(edge) / rate_bps * _TIGHT) for edge in self._crossing}
        literals = {
            pair: model.new_bool_var("")
            for pair in self._pairs
            if all(allowed[edge] for edge in self._network.routes[pair])
        }
        model.add_circuit([(a, b, literal) for (a, b), literal in literals.items()])
        for edge, crossing in self._crossing.items():
            crossers = [literals[self._pairs[index]] for index in crossing if self._pairs[index] in literals]
            if len(crossers) > allowed[edge] > 0:
                model.add(sum(crossers) <= allowed[edge])
        return model, literals

    def _solved(self, model: Any, literals: dict[Pair, Any]) -> Order | _Answer:
        from ortools.sat.python import cp_model

        if self._limit <= 0 or len({a for a, _ in literals}) < self._ranks:
            return _Answer.UNKNOWN if self._limit <= 0 else _Answer.IMPOSSIBLE
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = self._limit
        status = solver.solve(model)
        self._limit -= solver.response_proto.deterministic_time
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            following = {a: b for (a, b), literal in literals.items() if solver.boolean_value(literal)}
            order = [0]
            while len(order) < self._ranks:
                order.append(following[order[-1]])
            return tuple(order)
        return _Answer.IMPOSSIBLE if status == cp_model.INFEASIBLE else _Answer.UNKNOWN


class _Answer(Enum):
    IMPOSSIBLE = "proven"
    UNKNOWN = "the limit came first"


def _left_too_seldom(ranks: int, pairs: Sequence[Pair], taken: NDArray[np.float64]) -> list[set[int]]:
    """Subsets that the edges taken leave less than once: none means that every minimum cut is at least 1."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    whole = np.rint(taken * _UNITS).astype(np.int32)
    used = np.flatnonzero(whole)
    ends = np.array(pairs, dtype=int)[used]
    graph = csr_matrix((whole[used], (ends[:, 0], ends[:, 1])), shape=(ranks, ranks))
    found: list[set[int]] = []
    for rank in range(1, ranks):
        if any(rank not in subset for subset in found):
            continue
        flow = maximum_flow(graph, 0, rank)
        if flow.flow_value < _UNITS * 0.999:
            residual = graph - flow.flow
            residual.data = np.maximum(residual.data, 0)
            residual.eliminate_zeros()
            inside = breadth_first_order(residual, 0, return_predecessors=False)
            found.append(set(map(int, inside)))
    return found
