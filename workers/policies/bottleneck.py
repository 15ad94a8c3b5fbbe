"""The ring whose slowest edge is fastest: what a pipelined ring AllGather goes by. Pure.

Up to `EXACT_RANKS` ranks the order is optimal: the largest rate T such that the edges of at least T hold a Hamiltonian
cycle, found by bisection over the rates with a dynamic program over subsets (Bellman 1962, Held and Karp 1962).
Beyond, a local search from the best of a few greedy rings: good, not proven.
"""

from __future__ import annotations

from workers.policies.view import Matrix, Order, RingView, bottleneck_bps, from_first

EXACT_RANKS = 12


def bottleneck(view: RingView) -> Order:
    """The best order, or the current one unless the gain exceeds the margin."""
    best = best_ring(view.bandwidths, view.current)
    now_bps, best_bps = bottleneck_bps(view.bandwidths, view.current), bottleneck_bps(view.bandwidths, best)
    return best if best_bps > now_bps * (1 + view.margin) else view.current


def best_ring(bandwidths: Matrix, current: Order) -> Order:
    """An order of the largest bottleneck (exact up to EXACT_RANKS), beginning with the first rank of `current`."""
    n = len(bandwidths)
    if n <= 2:
        return current
    if n > EXACT_RANKS:
        return from_first(_searched(bandwidths, current), current[0])
    return from_first(_exact(bandwidths, current), current[0])


def _exact(bandwidths: Matrix, current: Order) -> Order:
    now_bps = bottleneck_bps(bandwidths, current)
    n = len(bandwidths)
    rates = sorted({bandwidths[a][b] for a in range(n) for b in range(n) if a != b and bandwidths[a][b] > now_bps})
    best, low, high = current, 0, len(rates)
    while low < high:
        middle = (low + high) // 2
        ring = _cycle_over(bandwidths, rates[middle])
        if ring is None:
            high = middle
        else:
            best, low = ring, middle + 1
    return best


def _cycle_over(bandwidths: Matrix, rate_bps: float) -> Order | None:
    """A Hamiltonian cycle through 0 on the edges of at least `rate_bps`, or None.

    `ends[subset]` holds, as bits, the ranks at which a path from 0 through exactly `subset` can end.
    """
    n = len(bandwidths)
    into = [sum(1 << a for a in range(n) if a != b and bandwidths[a][b] >= rate_bps) for b in range(n)]
    out_of_0 = sum(1 << b for b in range(1, n) if into[b] & 1)
    ends = [0] * (1 << n)
    everyone = (1 << n) - 2
    for subset in range(2, everyone + 1, 2):
        if subset & (subset - 1) == 0:
            ends[subset] = subset & out_of_0
            continue
        left, possible = subset, 0
        while left:
            last = left & -left
            left ^= last
            if ends[subset ^ last] & into[last.bit_length() - 1]:
                possible |= last
        ends[subset] = possible
    return _walk_back(ends, into, everyone)


def _walk_back(ends: list[int], into: list[int], everyone: int) -> Order | None:
    backwards, subset, before = [], everyone, into[0]
    while subset:
        possible = ends[subset] & before
        if not possible:
            return None
        last = possible & -possible
        rank = last.bit_length() - 1
        backwards.append(rank)
        subset ^= last
        before = into[rank]
    return (0, *reversed(backwards))


def _searched(bandwidths: Matrix, current: Order) -> Order:
    n = len(bandwidths)
    starts = [current, *(_greedy(bandwidths, first) for first in range(min(n, 8)))]
    return max((_improved(bandwidths, order) for order in starts), key=lambda order: _worth(bandwidths, order))


def _greedy(bandwidths: Matrix, first: int) -> Order:
    order, left = [first], set(range(len(bandwidths))) - {first}
    while left:
        order.append(max(sorted(left), key=lambda rank: bandwidths[order[-1]][rank]))
        left.remove(order[-1])
    return tuple(order)


def _worth(bandwidths: Matrix, order: Order) -> list[float]:
    """Rates from the slowest edge up: compared as lists, so that a search also improves where the bottleneck ties."""
    return sorted(bandwidths[a][b] for a, b in zip(order, (*order[1:], order[0]), strict=True))


def _improved(bandwidths: Matrix, order: Order) -> Order:
    """Moves stretches of up to three ranks elsewhere, at the slowest edge first, until none makes the ring better."""
    best, worth = order, _worth(bandwidths, order)
    improving = True
    while improving:
        improving = False
        for candidate in _moves(bandwidths, best):
            if (value := _worth(bandwidths, candidate)) > worth:
                best, worth, improving = candidate, value, True
                break
    return best


def _moves(bandwidths: Matrix, order: Order) -> list[Order]:
    n = len(order)
    slow = min(range(n), key=lambda place: bandwidths[order[place]][order[(place + 1) % n]])
    turned = from_first(order, order[(slow + 1) % n])
    moves = []
    for length in (1, 2, 3):
        for begin in range(n - length + 1):
            stretch, rest = turned[begin : begin + length], turned[:begin] + turned[begin + length :]
            moves += [rest[:place] + stretch + rest[place:] for place in range(len(rest)) if place != begin]
    return moves
