"""The physical limit of a collective: no schedule on these links can be faster. Pure; knows no torch and no routes.

AllGather: every byte of a shard must leave every set of sites that holds its DC and misses another one, so for each
such cut S the capacity out of S, over the time taken, carries at least one shard per DC in S. Max-flow min-cut with
tree packing (Edmonds) says the worst cut can be reached; facts and proofs as in ForestColl (arXiv 2402.06787).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import networkx as nx

from topologies.model import Edge

Capacities = Mapping[Edge, float]
"""bit/s by directed edge."""

Segments = Sequence[tuple[float, Capacities]]
"""Piecewise constant capacities: (from when in s, capacities until the next one), sorted; the last one lasts."""

_SOURCE = object()
_TOLERANCE = 1e-9


def allgather_limit_s(capacities: Capacities, dcs: Sequence[str], size_bytes: float) -> float:
    """Lower bound in seconds on an AllGather of `size_bytes` per DC over constant `capacities`; inf if cut off."""
    return allgather_limit_over_time_s([(0.0, capacities)], dcs, size_bytes, 0.0)


def allgather_limit_over_time_s(segments: Segments, dcs: Sequence[str], size_bytes: float, start_s: float) -> float:
    """Lower bound in seconds on an AllGather that starts at `start_s` while capacities change as `segments` say.

    Exact: the time grows to what the worst violated cut needs until no cut is violated. ValueError if the segments
    begin after `start_s`.
    """
    if not segments or segments[0][0] > start_s:
        raise ValueError(f"the capacities at {start_s} s are not known")
    shard_bits = 8.0 * size_bytes
    members = frozenset(dcs)
    cuts = [frozenset([dc]) for dc in dcs] + [_sites(segments) - {dc} for dc in dcs]
    limit_s = 0.0
    while cuts:
        needed_s = max(_time_to_carry_s(segments, cut, shard_bits * len(cut & members), start_s) for cut in cuts)
        if needed_s <= limit_s or needed_s == math.inf:
            return max(needed_s, limit_s)
        limit_s = needed_s
        cuts = _violated_cuts(segments, dcs, shard_bits, start_s, limit_s)
    return limit_s


def ring_limit_s(
    capacities: Capacities, order: Sequence[str], routes: Mapping[tuple[str, str], Sequence[str]], size_bytes: float
) -> float:
    """Time in seconds of a pipelined ring AllGather in `order` when pairs take `routes` (lists of sites).

    Every ring edge carries n−1 shards, so the pace is the smallest c_l / k_l, k_l = ring edges that cross link l.
    """
    crossing: dict[Edge, int] = {}
    for pair in zip(order, [*order[1:], order[0]], strict=True):
        for edge in pairwise(routes[pair]):
            crossing[edge] = crossing.get(edge, 0) + 1
    pace_bps = min(capacities.get(edge, 0.0) / count for edge, count in crossing.items())
    return math.inf if pace_bps <= 0 else (len(order) - 1) * 8.0 * size_bytes / pace_bps


def _sites(segments: Segments) -> frozenset[str]:
    return frozenset(site for _, capacities in segments for edge in capacities for site in edge)


def _time_to_carry_s(segments: Segments, cut: frozenset[str], bits: float, start_s: float) -> float:
    """Seconds after `start_s` until the edges that leave `cut` could have carried `bits`."""
    left = bits
    for index, (begin, capacities) in enumerate(segments):
        end = segments[index + 1][0] if index + 1 < len(segments) else math.inf
        begin = max(begin, start_s)
        if end <= begin:
            continue
        rate = sum(bps for (src, dst), bps in capacities.items() if src in cut and dst not in cut)
        if rate > 0 and left <= rate * (end - begin):
            return begin + left / rate - start_s
        left -= rate * (end - begin) if rate > 0 else 0.0
    return math.inf


def _carried_bits(segments: Segments, start_s: float, duration_s: float) -> dict[Edge, float]:
    bits: dict[Edge, float] = {}
    for index, (begin, capacities) in enumerate(segments):
        end = segments[index + 1][0] if index + 1 < len(segments) else math.inf
        covered = min(end, start_s + duration_s) - max(begin, start_s)
        if covered > 0:
            for edge, bps in capacities.items():
                bits[edge] = bits.get(edge, 0.0) + bps * covered
    return bits


def _violated_cuts(
    segments: Segments, dcs: Sequence[str], shard_bits: float, start_s: float, duration_s: float
) -> list[frozenset[str]]:
    """Cuts that could not carry their shards in `duration_s`, at most one per DC."""
    graph = nx.DiGraph()
    for (src, dst), bits in _carried_bits(segments, start_s, duration_s).items():
        graph.add_edge(src, dst, capacity=bits)
    for dc in dcs:
        graph.add_edge(_SOURCE, dc, capacity=shard_bits)
    wanted = shard_bits * len(dcs)
    cuts = []
    for dc in dcs:
        reached, (inside, _) = nx.minimum_cut(graph, _SOURCE, dc, flow_func=nx.algorithms.flow.dinitz)
        if reached < wanted * (1 - _TOLERANCE):
            cuts.append(frozenset(inside - {_SOURCE}))
    return cuts
