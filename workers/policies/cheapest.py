"""The ring of the least sum of costs 1 / bandwidth: a travelling salesman's tour, as PCCL solves it. Pure.

A baseline: a pipelined ring goes at the pace of its slowest edge, and the sum does not see which that is.
"""

from __future__ import annotations

import math

from workers.network import Matrix, Order
from workers.policies.tours import cheapest_tour, tour_cost
from workers.policies.view import RingView, chosen, from_first


def cheapest(view: RingView) -> Order:
    """The order of the least sum; the current one unless the mean cost falls by more than the margin."""
    if len(view.current) <= 2:
        return view.current
    costs: Matrix = tuple(tuple(1 / bps if bps > 0 else math.inf for bps in row) for row in view.bandwidths)
    best = from_first(cheapest_tour(costs), view.current[0])
    now, least = (len(best) / tour_cost(costs, order) for order in (view.current, best))
    return chosen(view, best, now, least)
