"""The ring whose slowest edge is fastest, each pair taken alone: what a pipelined ring AllGather goes by. Pure.

Optimal: by dynamic programming for a few ranks, by `linkrings` with a link of its own for each pair beyond. Where pairs
share links it over-predicts: `shared` is the policy that knows.
"""

from __future__ import annotations

import math

from workers.network import Matrix, Order, isolated
from workers.policies import linkrings, tours
from workers.policies.view import RingView, bottleneck_bps, chosen, from_first


def bottleneck(view: RingView) -> Order:
    """The best order, or the current one unless the gain exceeds the margin and pays for the change."""
    delays = view.network.latencies_s if view.network else None
    best = best_ring(view.bandwidths, view.current, delays)
    rates = (bottleneck_bps(view.bandwidths, order) for order in (view.current, best))
    return chosen(view, best, *rates)


def best_ring(bandwidths: Matrix, current: Order, latencies_s: dict[tuple[int, int], float] | None = None) -> Order:
    """An order of the largest bottleneck, beginning with the first rank of `current`; of those one of least delay."""
    n = len(bandwidths)
    if n <= 2:
        return current
    if n > tours.EXACT_RANKS:
        return linkrings.best_ring(isolated(bandwidths), n, current).order
    best = tours.widest_tour(bandwidths)
    rate = bottleneck_bps(bandwidths, best)
    if latencies_s and any(latencies_s.values()):
        best = tours.cheapest_tour(
            tuple(
                tuple(latencies_s.get((a, b), 0.0) if bandwidths[a][b] >= rate else math.inf for b in range(n))
                for a in range(n)
            )
        )
    return from_first(best, current[0])
