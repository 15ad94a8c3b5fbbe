"""What is known of a network at one moment, as values: links, the routes of every pair of ranks, delays, what will be.

Links are directed edges with a capacity, ranks are numbers. Knows no collective, no clock and no source of knowledge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from topologies.model import Edge

Pair = tuple[int, int]
"""Ordered: from rank, to rank."""

Capacities = Mapping[Edge, float]
"""bit/s by directed edge."""

Matrix = tuple[tuple[float, ...], ...]
"""By rank: row = from, column = to; the diagonal means nothing."""

Order = tuple[int, ...]
"""Ranks in the order of the ring; each sends to the next, the last to the first. Rotations are the same ring."""


@dataclass(frozen=True)
class Network:
    """Capacities in bit/s, the links that each pair crosses, one-way delays in s (absent: not known).

    `future` is what the capacities will be: (seconds from now, capacities until the next one), the first at 0; only an
    oracle fills it. An edge that is not named carries nothing, a pair without a route reaches nobody.
    """

    capacities_bps: Capacities
    routes: Mapping[Pair, tuple[Edge, ...]]
    latencies_s: Mapping[Pair, float] | None = None
    future: tuple[tuple[float, Capacities], ...] = ()

    def capacity_bps(self, edge: Edge) -> float:
        """What the edge carries; 0 where nothing is known."""
        return self.capacities_bps.get(edge, 0.0)

    def pair_bps(self, pair: Pair) -> float:
        """What the pair alone can carry: the narrowest link of its route."""
        return min((self.capacity_bps(edge) for edge in self.routes.get(pair, ())), default=0.0)


def network_of(
    capacities: Capacities,
    routes: Mapping[tuple[str, str], Sequence[str]],
    dcs: Sequence[str],
    delays_s: Mapping[Edge, float] | None = None,
) -> Network:
    """A network by rank (rank i works in dcs[i]) out of what is known by name; routes are lists of sites."""
    rank_of = {dc: rank for rank, dc in enumerate(dcs)}
    by_rank = {
        (rank_of[source], rank_of[target]): tuple(pairwise(path))
        for (source, target), path in routes.items()
        if source in rank_of and target in rank_of
    }
    latencies = None
    if delays_s is not None:
        latencies = {pair: sum(delays_s.get(edge, 0.0) for edge in edges) for pair, edges in by_rank.items()}
    return Network(dict(capacities), by_rank, latencies)


def isolated(bandwidths: Matrix) -> Network:
    """The network that pairwise measurements suggest: a link for every pair. What they share stays unseen."""
    pairs = [(a, b) for a in range(len(bandwidths)) for b in range(len(bandwidths)) if a != b]
    links = {(a, b): (str(a), str(b)) for a, b in pairs}
    return Network({links[a, b]: bandwidths[a][b] for a, b in pairs}, {pair: (links[pair],) for pair in pairs})


def bandwidths(network: Network, ranks: int) -> Matrix:
    """What each pair alone can carry, bit/s; 0 on the diagonal."""
    return tuple(tuple(0.0 if a == b else network.pair_bps((a, b)) for b in range(ranks)) for a in range(ranks))


def edges_of(order: Sequence[int]) -> list[Pair]:
    """The pairs of a ring."""
    return list(zip(order, [*order[1:], order[0]], strict=True))


def loads(network: Network, pairs: Iterable[tuple[Pair, float]]) -> dict[Edge, float]:
    """What each link carries when the pairs carry what stands beside them."""
    carried: dict[Edge, float] = {}
    for pair, amount in pairs:
        for edge in network.routes.get(pair, ()):
            carried[edge] = carried.get(edge, 0.0) + amount
    return carried


def ring_bps(network: Network, order: Sequence[int]) -> float:
    """Pace of a pipelined ring, whose edges all carry the same: min over links of capacity ÷ ring edges crossing it."""
    pairs = edges_of(order)
    if any(pair not in network.routes for pair in pairs):
        return 0.0
    return min(network.capacity_bps(edge) / count for edge, count in loads(network, ((p, 1) for p in pairs)).items())


def ring_latency_s(network: Network, order: Sequence[int]) -> float:
    """Delay once around; 0 where delays are not known."""
    known = network.latencies_s or {}
    return sum(known.get(pair, 0.0) for pair in edges_of(order))


def reversed_network(network: Network) -> Network:
    """Every link and every route the other way round: an AllGather there is a ReduceScatter here."""
    latencies = network.latencies_s
    return replace(
        network,
        capacities_bps=_reversed(network.capacities_bps),
        routes={(b, a): tuple((y, x) for x, y in reversed(edges)) for (a, b), edges in network.routes.items()},
        latencies_s=None if latencies is None else {(b, a): delay for (a, b), delay in latencies.items()},
        future=tuple((at_s, _reversed(capacities)) for at_s, capacities in network.future),
    )


def _reversed(capacities: Capacities) -> dict[Edge, float]:
    return {(target, source): rate for (source, target), rate in capacities.items()}


def time_s(bits: float, rate_bps: float) -> float:
    """Seconds that `bits` take; inf at rate 0."""
    return bits / rate_bps if rate_bps > 0 else math.inf
