"""Packs trees or rings into links: which, and what share of every shard each carries, so that an AllGather ends first.

A linear program over all arborescences, or all rings: minimize the time u per bit of shard, such that the shares of
each root add up to 1 and no link carries more than capacity · u. There are too many columns to list, so they are
generated: the prices of the links (the duals) ask for the cheapest arborescence of a root (Edmonds 1967), or the
cheapest ring, until none would help. For DCs joined by links of their own, 1/u of the trees is the limit of any
AllGather (Edmonds' disjoint branchings; facts and proofs as in ForestColl, arXiv 2402.06787). Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topologies.model import Edge
from workers.network import Network, Order, Pair, edges_of
from workers.policies.linkrings import best_ring
from workers.policies.tours import EXACT_RANKS, cheapest_tour
from workers.schedules.arborescence import cheapest_arborescence
from workers.schedules.forest import Forest, Tree, along_ring, shard_bps

MAX_ROUNDS = 200
MOST_RINGS = 6

GAP = 1e-4
"""Columns are generated until the rate is this near to its upper bound."""

SMALLEST_SHARE = 0.004
"""Trees that carry less of a shard are left out: their chunks would cost more than they bring."""


class NoSchedule(ValueError):
    """Some DC cannot be reached over the links and routes that are known."""


@dataclass(frozen=True)
class _Column:
    """A way for the shards of `root` (None: of all ranks at once), and how often it crosses each link."""

    root: int | None
    pairs: tuple[Pair, ...]
    crossings: dict[Edge, float]


@dataclass(frozen=True)
class Packing:
    """A forest with the rate x = 1/u in bit/s that the program found, and the bound on that of any packing."""

    forest: Forest
    shard_bps: float
    bound_bps: float


def trees(network: Network, ranks: int) -> Packing:
    """The packing of arborescences. NoSchedule if a rank is cut off.

    Where every link joins two DCs that reach each other over it, only those pairs are used: a relay in a DC on the way
    costs no link more, and keeps its copy. Else pairs take the routes they have, and those may keep it below the limit.
    """
    pairs = usable_pairs(network, ranks)
    pricing = _Pricing(network, pairs, ranks)
    columns = [pricing.tree(root, {}) for root in range(ranks)]
    columns += _ring_columns(network, ranks, pairs, pricing)
    shares, bound = _solve(network, columns, [(root,) for root in range(ranks)], pricing.new_trees)
    forest = tuple(
        Tree(column.root, column.pairs, share, lane, paced=True)
        for lane, (column, share) in enumerate(shares)
        if column.root is not None
    )
    packed = normalized(forest)
    return Packing(packed, shard_bps(network, packed), bound)


def rings(network: Network, ranks: int, most: int = MOST_RINGS) -> Packing:
    """Up to `most` rings along each of which every shard travels in part. NoSchedule if there is no ring.

    The bound is that of any number of rings; tours beyond `tours.EXACT_RANKS` are searched, and the bound is then inf.
    """
    pricing = _Pricing(network, [pair for pair in network.routes if network.pair_bps(pair) > 0], ranks)
    first = best_ring(network, ranks, tuple(range(ranks))).order
    orders = [order for order in (first, tuple(reversed(first))) if pricing.usable.issuperset(edges_of(order))]
    columns = [pricing.ring(order) for order in orders]
    if not columns:
        raise NoSchedule("no ring joins all DCs")
    shares, bound = _solve(network, columns, [(None,)], pricing.new_rings)
    while len(shares) > most:
        kept = [column for column, _ in sorted(shares, key=lambda entry: -entry[1])[:-1]]
        shares, _ = _solve(network, kept, [(None,)], lambda _: ([], 0.0))
    packed = normalized(_along(shares))
    return Packing(packed, shard_bps(network, packed), bound)


def in_proportion(network: Network, orders: Sequence[Order]) -> Forest:
    """These rings, each with the share of every shard that lets them end together. NoSchedule if none carries."""
    pricing = _Pricing(network, list(network.routes), len(orders[0]))
    carrying = [order for order in orders if all(network.pair_bps(pair) > 0 for pair in edges_of(order))]
    if not carrying:
        raise NoSchedule("no ring joins all DCs")
    shares, _ = _solve(network, [pricing.ring(order) for order in carrying], [(None,)], lambda _: ([], 0.0))
    return normalized(_along(shares))


def normalized(forest: Forest) -> Forest:
    """Without trees of hardly any share; the rest of each root carries the whole shard again."""
    kept = [tree for tree in forest if tree.share >= SMALLEST_SHARE]
    total: dict[int, float] = {}
    for tree in kept:
        total[tree.root] = total.get(tree.root, 0.0) + tree.share
    return tuple(replace(tree, share=tree.share / total[tree.root]) for tree in kept)


def _along(shares: Sequence[tuple[_Column, float]]) -> Forest:
    forest: Forest = ()
    for lane, (column, share) in enumerate(shares):
        forest += along_ring(tuple(a for a, _ in column.pairs), share, lane)
    return forest


def usable_pairs(network: Network, ranks: int) -> list[Pair]:
    """Pairs over one link each if those are all the links there are, else all pairs that carry anything."""
    carrying = sorted(pair for pair in network.routes if network.pair_bps(pair) > 0 and max(pair) < ranks)
    single = [pair for pair in carrying if len(network.routes[pair]) == 1]
    links = {edge for edge in network.capacities_bps if network.capacity_bps(edge) > 0}
    return single if links <= {network.routes[pair][0] for pair in single} else carrying


class _Pricing:
    """Makes columns, and finds those that the prices of the links ask for."""

    def __init__(self, network: Network, pairs: Sequence[Pair], ranks: int) -> None:
        self._network, self._ranks = network, ranks
        self.usable = frozenset(pairs)

    def _costs(self, prices: dict[Edge, float]) -> dict[Pair, float]:
        routes = self._network.routes
        return {pair: sum(prices.get(edge, 0.0) for edge in routes[pair]) for pair in sorted(self.usable)}

    def column(self, root: int | None, pairs: Sequence[Pair], weight: float) -> _Column:
        """These pairs, each carrying `weight` shards."""
        crossings: dict[Edge, float] = {}
        for pair in pairs:
            for edge in self._network.routes[pair]:
                crossings[edge] = crossings.get(edge, 0.0) + weight
        return _Column(root, tuple(pairs), crossings)

    def tree(self, root: int, prices: dict[Edge, float]) -> _Column:
        """The cheapest arborescence from `root`; without prices the one over the widest pairs. NoSchedule if none."""
        costs = self._costs(prices) if prices else {p: 1 / self._network.pair_bps(p) for p in sorted(self.usable)}
        pairs = cheapest_arborescence(costs, root, self._ranks)
        if pairs is None:
            raise NoSchedule(f"rank {root} does not reach every other rank")
        return self.column(root, pairs, 1.0)

    def ring(self, order: Order) -> _Column:
        """All n shards travel n−1 hops each: every edge carries n−1 shards."""
        return self.column(None, edges_of(order), self._ranks - 1.0)

    def new_trees(self, prices: dict[Edge, float]) -> tuple[list[_Column], float]:
        """The cheapest tree of every root, and what they cost together: a lower bound on u."""
        columns = [self.tree(root, prices) for root in range(self._ranks)]
        return columns, sum(_cost(column, prices) for column in columns)

    def new_rings(self, prices: dict[Edge, float]) -> tuple[list[_Column], float]:
        """The cheapest ring, and its cost: a lower bound on u."""
        costs, n = self._costs(prices), self._ranks
        order = cheapest_tour(tuple(tuple(costs.get((a, b), math.inf) for b in range(n)) for a in range(n)))
        if any(pair not in self.usable for pair in edges_of(order)):
            return [], 0.0
        column = self.ring(order)
        return [column], _cost(column, prices) if n <= EXACT_RANKS else 0.0


def _cost(column: _Column, prices: dict[Edge, float]) -> float:
    return sum(prices.get(edge, 0.0) * count for edge, count in column.crossings.items())


def _ring_columns(network: Network, ranks: int, pairs: Sequence[Pair], pricing: _Pricing) -> list[_Column]:
    """The best ring as trees: a start that the rounds only improve."""
    order = best_ring(network, ranks, tuple(range(ranks))).order
    if not set(edges_of(order)) <= set(pairs):
        return []
    return [pricing.column(tree.root, tree.edges, 1.0) for tree in along_ring(order)]


def _solve(
    network: Network,
    columns: list[_Column],
    roots: Sequence[tuple[int | None]],
    priced: Callable[[dict[Edge, float]], tuple[list[_Column], float]],
) -> tuple[list[tuple[_Column, float]], float]:
    """The columns with their shares, and the bound in bit/s. Capacities count in units of the largest."""
    from scipy.optimize import linprog
    from scipy.sparse import lil_matrix

    columns = list(columns)
    rows = {root: row for row, (root,) in enumerate(roots)}
    edges = sorted(edge for edge in network.capacities_bps if network.capacity_bps(edge) > 0)
    scale = max(network.capacity_bps(edge) for edge in edges)
    place = {edge: row for row, edge in enumerate(edges)}
    known = {(column.root, frozenset(column.pairs)) for column in columns}
    lower = 0.0
    for _ in range(MAX_ROUNDS):
        count = len(columns)
        links, sums = lil_matrix((len(edges), count + 1)), lil_matrix((len(rows), count + 1))
        for number, column in enumerate(columns):
            sums[rows[column.root], number] = 1.0
            for edge, times in column.crossings.items():
                links[place[edge], number] = times
        for edge, row in place.items():
            links[row, count] = -network.capacity_bps(edge) / scale
        solved = linprog(
            np.append(np.zeros(count), 1.0),
            A_ub=links.tocsr(),
            b_ub=np.zeros(len(edges)),
            A_eq=sums.tocsr(),
            b_eq=np.ones(len(rows)),
            method="highs",
        )
        if not solved.success:
            raise NoSchedule(f"the packing has no solution: {solved.message}")
        prices = {edge: max(0.0, -float(solved.ineqlin.marginals[row])) for edge, row in place.items()}
        new, bound = priced(prices)
        lower = max(lower, bound)
        new = [column for column in new if (column.root, frozenset(column.pairs)) not in known]
        if not new or solved.fun <= lower * (1 + GAP):
            break
        known |= {(column.root, frozenset(column.pairs)) for column in new}
        columns += new
    shares = [(column, float(share)) for column, share in zip(columns, solved.x, strict=False) if share > 1e-9]
    return shares, scale / lower if lower > 0 else math.inf
