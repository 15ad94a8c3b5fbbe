"""Closed tours over all ranks by dynamic programming over subsets (Bellman 1962, Held and Karp 1962). Pure.

Two objectives share it: the least sum of costs, and the largest smallest value. Exact up to `EXACT_RANKS`; beyond, the
sum is searched locally (not proven) and bottlenecks are `linkrings`' affair.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from workers.network import Matrix, Order, edges_of

EXACT_RANKS = 13
"""2¹² subsets of 12 ends each: some 10 ms."""

Table = NDArray[np.float64]


def cheapest_tour(costs: Matrix) -> Order:
    """The tour of the least sum of `costs` (inf: no edge), from rank 0; exact up to EXACT_RANKS."""
    if len(costs) > EXACT_RANKS:
        return _searched(costs)
    return _tour(np.array(costs, dtype=float))


def tour_cost(costs: Matrix, order: Order) -> float:
    """Sum of costs around the tour."""
    return sum(costs[a][b] for a, b in edges_of(order))


def widest_tour(values: Matrix) -> Order:
    """The tour whose smallest value is largest, from rank 0. At most EXACT_RANKS."""
    return _tour(-np.array(values, dtype=float), bottleneck=True)


def _tour(costs: Table, *, bottleneck: bool = False) -> Order:
    """`best[subset, last]`: the cheapest path from rank 0 through exactly `subset` of the others, ending at `last`."""
    others = len(costs) - 1
    if others <= 1:
        return tuple(range(len(costs)))
    join = np.maximum if bottleneck else np.add
    best = np.full((1 << others, others), math.inf)
    best[1 << np.arange(others), np.arange(others)] = costs[0, 1:]
    subsets = np.arange(1 << others)
    sizes = np.array([int(subset).bit_count() for subset in subsets])
    for size in range(1, others):
        before = subsets[sizes == size]
        reached = join(best[before][:, :, None], costs[None, 1:, 1:]).min(axis=1)
        for last in range(others):
            new = before & (1 << last) == 0
            best[before[new] | (1 << last), last] = reached[new, last]
    return _walk_back(best, costs, join)


def _walk_back(best: Table, costs: Table, join: np.ufunc) -> Order:
    others = len(costs) - 1
    subset, following, backwards = (1 << others) - 1, 0, []
    while subset:
        last = int(np.argmin(join(best[subset], costs[1:, following])))
        while not subset >> last & 1:  # every way is closed: any rank that is left
            last = (last + 1) % others
        backwards.append(last + 1)
        subset ^= 1 << last
        following = last + 1
    return (0, *reversed(backwards))


def _searched(costs: Matrix) -> Order:
    """Or-opt from the nearest neighbours of a few starts: stretches of up to three ranks move while that saves."""
    n = len(costs)
    starts = [_nearest(costs, first) for first in range(min(n, 4))]
    return min((_improved(costs, order) for order in starts), key=lambda order: tour_cost(costs, order))


def _nearest(costs: Matrix, first: int) -> Order:
    order, left = [first], set(range(len(costs))) - {first}
    while left:
        order.append(min(sorted(left), key=lambda rank: costs[order[-1]][rank]))
        left.remove(order[-1])
    return tuple(order)


def _improved(costs: Matrix, order: Order) -> Order:
    ranks, improving = list(order), True
    while improving:
        improving = any(_moved(costs, ranks, length, begin) for length in (1, 2, 3) for begin in range(len(ranks)))
    place = ranks.index(0)
    return (*ranks[place:], *ranks[:place])


def _moved(costs: Matrix, ranks: list[int], length: int, begin: int) -> bool:
    """Moves the stretch of `length` ranks at `begin` (in place) to where it costs least; whether that saved cost."""
    n = len(ranks)
    if n < length + 3:
        return False
    turned = ranks[begin:] + ranks[:begin]
    stretch, rest = turned[:length], turned[length:]
    head, tail = stretch[0], stretch[-1]
    saved = costs[rest[-1]][head] + costs[tail][rest[0]] - costs[rest[-1]][rest[0]]

    def price(place: int) -> float:
        a, b = rest[place - 1], rest[place]
        return costs[a][head] + costs[tail][b] - costs[a][b]

    place = min(range(1, len(rest)), key=price)
    if not price(place) < saved - 1e-9 * abs(saved):
        return False
    ranks[:] = rest[:place] + stretch + rest[place:]
    return True
