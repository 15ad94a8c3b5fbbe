"""The ring that a policy would take if it knew what the links will carry until the next decision. Pure.

It sees the future capacities of every link and the routes as they are now (no one knows what the WAN controller will
do); it minimizes the time of the collectives that the order will serve, back to back from now. A control: what better
measuring and forecasting could still gain. Exact up to `EXACT_RANKS`, beyond it the best of a ring for each stretch of
the future, not proven.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

from workers.network import Network, Order, edges_of, loads
from workers.policies.linkrings import best_ring
from workers.policies.view import LinksUnknown, RingView, chosen, links_of

EXACT_RANKS = 7
MAX_STRETCHES = 12

ASSUMED_BYTES = 2**20
"""Where the view does not say how large a shard is."""


def clairvoyant(view: RingView) -> Order:
    """The order under which the coming collectives end first. LinksUnknown if the view has no future."""
    network = links_of(view, "clairvoyant")
    if not network.future:
        raise LinksUnknown(
            "ring policy 'clairvoyant' needs to know the future, and only the runner does",
            "take the bandwidths from oracle, in an experiment whose trace is known",
        )
    bits = 8.0 * (view.size_bytes or ASSUMED_BYTES) * (len(view.current) - 1) * view.collectives
    best_s, best = min((_time_s(network, order, bits), order) for order in _candidates(view, network))
    now_s = _time_s(network, view.current, bits)
    return chosen(view, best, bits / now_s, bits / best_s) if best_s < now_s else view.current


def _candidates(view: RingView, network: Network) -> Iterator[Order]:
    first, *others = view.current
    if len(view.current) <= EXACT_RANKS:
        yield from ((first, *rest) for rest in permutations(others))
        return
    yield view.current
    step = -(-len(network.future) // MAX_STRETCHES)
    for _, capacities in network.future[::step]:
        yield best_ring(replace(network, capacities_bps=capacities), len(view.current), view.current).order


def _time_s(network: Network, order: Order, bits: float) -> float:
    """Seconds from now until every link has carried `bits` for each ring edge that crosses it, at the ring's pace."""
    counts = loads(network, ((pair, 1.0) for pair in edges_of(order)))
    left = bits
    for index, (start, capacities) in enumerate(network.future):
        is_last = index + 1 == len(network.future)
        length_s = math.inf if is_last else network.future[index + 1][0] - start
        pace = min(capacities.get(edge, 0.0) / count for edge, count in counts.items())
        if pace > 0 and left <= pace * length_s:
            return start + left / pace
        left -= pace * length_s if pace > 0 else 0.0
    return math.inf
