"""Good rings over shared links, quickly: a walk around a wide spanning tree, then stretches move off crowded links.

Pure, deterministic, without proof: where `linkrings` starts from.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from workers.network import Network, Order, edges_of, ring_bps

POWER = 12
"""Crowding of all links counts as a norm of this power: nearly the worst, yet a step at the second worst shows."""

ROUNDS = 200

Array = NDArray[np.float64]


def good_ring(network: Network, current: Order) -> Order:
    """The best of the current ring and what local search makes of it and of a walk around the widest tree."""
    starts = [current, _tree_walk(network, current)]
    search = _Crowding(network, len(current))
    rings = [*starts, *(search.improved(order) for order in dict.fromkeys(starts))]
    return max(rings, key=lambda order: ring_bps(network, order))


def _tree_walk(network: Network, current: Order) -> Order:
    """Ranks as a walk along the maximum spanning tree first meets them: on the tree's paths it takes each link once."""
    graph = nx.Graph()
    for a, b in network.capacities_bps:
        both = min(network.capacity_bps((a, b)), network.capacity_bps((b, a)))
        graph.add_edge(a, b, weight=both)
    home = {edges[0][0]: pair[0] for pair, edges in sorted(network.routes.items()) if edges}
    start = next((site for site, rank in home.items() if rank == current[0]), None)
    if start is None:
        return current
    met = nx.dfs_preorder_nodes(nx.maximum_spanning_tree(graph), start)
    order = [home[site] for site in met if site in home]
    return (*order, *(rank for rank in current if rank not in order))


class _Crowding:
    """Local search by the norm of (ring edges ÷ capacity) over links."""

    def __init__(self, network: Network, ranks: int) -> None:
        edges = sorted({edge for route in network.routes.values() for edge in route})
        index = {edge: column for column, edge in enumerate(edges)}
        capacities = np.array([network.capacity_bps(edge) for edge in edges])
        self._price = capacities.max(initial=1.0) / np.maximum(capacities, 1e-9 * capacities.max(initial=1.0))
        self._crosses = np.zeros((ranks, ranks, len(edges)))
        for (a, b), route in network.routes.items():
            for edge in route:
                self._crosses[a, b, index[edge]] += 1

    def improved(self, order: Order) -> Order:
        """Moves stretches at the most crowded link until none helps."""
        ranks = list(order)
        if len(ranks) < 6:
            return order
        for _ in range(ROUNDS):
            counts = sum(self._crosses[pair] for pair in edges_of(ranks))
            norm = self._norm(counts)
            worst = int(np.argmax(counts * self._price))
            places = [place for place, pair in enumerate(edges_of(ranks)) if self._crosses[pair][worst]]
            moves = [
                self._best_move(ranks, counts, begin, size) for size in (1, 2, 3) for begin in _around(places, size)
            ]
            best = min(moves, key=lambda move: move[0], default=(norm, ranks))
            if best[0] >= norm * (1 - 1e-9):
                break
            ranks = best[1]
        return tuple(ranks)

    def _norm(self, counts: Array) -> Array:
        return ((counts * self._price) ** POWER).sum(axis=-1)

    def _best_move(self, ranks: list[int], counts: Array, begin: int, size: int) -> tuple[float, list[int]]:
        """Where the stretch of `size` ranks from `begin` on goes best, and the norm there."""
        begin %= len(ranks)
        turned = ranks[begin:] + ranks[:begin]
        stretch, rest = turned[:size], turned[size:]
        before, after = np.array(rest[:-1]), np.array(rest[1:])
        crosses, head, tail = self._crosses, stretch[0], stretch[-1]
        without = counts - crosses[rest[-1], head] - crosses[tail, rest[0]] + crosses[rest[-1], rest[0]]
        norms = self._norm(without - crosses[before, after] + crosses[before, head] + crosses[tail, after])
        place = int(np.argmin(norms))
        return float(norms[place]), rest[: place + 1] + stretch + rest[place + 1 :]


def _around(places: list[int], size: int) -> list[int]:
    """Where stretches begin that end at, or begin after, the ring edges at `places`."""
    return sorted({place + 1 for place in places} | {place - size + 1 for place in places})
