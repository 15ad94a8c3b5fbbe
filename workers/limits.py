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
import numpy as np

from topologies.model import Edge
from workers.network import Capacities

Segments = Sequence[tuple[float, Capacities]]
"""Piecewise constant capacities: (from when in s, capacities until the next one), sorted; the last one lasts."""

_SOURCE = object()
_TOLERANCE = 1e-9
_UNITS = 2**20


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


def reduce_scatter_limit_s(capacities: Capacities, dcs: Sequence[str], size_bytes: float) -> float:
    """Lower bound in seconds on a ReduceScatter that leaves `size_bytes` with each DC; inf if one is cut off.

    Sums may be formed on the way, so it is an AllGather with time and links reversed: into every set of sites that
    misses a DC and holds |S ∩ DCs| of them go that many shards of partial sums.
    """
    reverse = {(target, source): rate for (source, target), rate in capacities.items()}
    return allgather_limit_s(reverse, dcs, size_bytes)


def all_reduce_limit_s(capacities: Capacities, dcs: Sequence[str], size_bytes: float) -> float:
    """Lower bound in seconds on an AllReduce of `size_bytes` per DC; inf if one is cut off. Two bounds, the larger one.

    Cuts: what the DCs on one side hold is `size_bytes` of partial sums at least, and has to leave it whole. Count: for
    each element n−1 messages are sent before the first DC knows the sum, since every other must have sent one, and n−1
    received after it, since every other must still learn it (Patarasuk and Yuan 2009); each ends on a link into a DC
    and begins on one out of a DC. Holds for messages of partial sums; ReduceScatter and AllGather need not reach it.
    """
    members = set(dcs)
    narrowest = min(_max_flow_bps(capacities, a, b) for a in dcs[:1] for b in dcs[1:])
    narrowest = min(narrowest, *(_max_flow_bps(capacities, b, a) for a in dcs[:1] for b in dcs[1:]))
    out = sum(rate for (source, _), rate in capacities.items() if source in members)
    into = sum(rate for (_, target), rate in capacities.items() if target in members)
    bits = 8.0 * size_bytes
    return max(_time_s(bits, narrowest), _time_s(2 * (len(dcs) - 1) * bits, min(out, into)))


def broadcast_limit_s(capacities: Capacities, dcs: Sequence[str], size_bytes: float, root: str) -> float:
    """Lower bound in seconds on a Broadcast of `size_bytes` from the DC `root`; inf if one is cut off.

    What separates the root from some DC has to carry all of it; packed arborescences reach that (Edmonds 1973).
    """
    narrowest = min(_max_flow_bps(capacities, root, dc) for dc in dcs if dc != root)
    return _time_s(8.0 * size_bytes, narrowest)


def all_to_all_limit_s(capacities: Capacities, dcs: Sequence[str], size_bytes: float) -> float:
    """Lower bound in seconds on an AllToAll of `size_bytes` from each DC to each other; inf if one is cut off.

    No byte serves two DCs, so it is a flow of n·(n−1) commodities: the linear program of the largest common rate, those
    of one source as one commodity. Reached by routes that split at will; a cut's bound is never larger.
    """
    from scipy.optimize import linprog
    from scipy.sparse import lil_matrix

    edges = [edge for edge, rate in capacities.items() if rate > 0]
    if not edges:
        return math.inf
    sites = sorted({site for edge in edges for site in edge} | set(dcs))
    flows = len(dcs) * len(edges)
    balance, links = lil_matrix((len(dcs) * len(sites), flows + 1)), lil_matrix((len(edges), flows + 1))
    for number, dc in enumerate(dcs):
        row_of = {site: number * len(sites) + index for index, site in enumerate(sites)}
        for index, (source, target) in enumerate(edges):
            column = number * len(edges) + index
            balance[row_of[source], column], balance[row_of[target], column] = -1.0, 1.0
            links[index, column] = 1.0
        for other in dcs:
            balance[row_of[other], flows] = len(dcs) - 1.0 if other == dc else -1.0
    scale = max(capacities[edge] for edge in edges)
    solved = linprog(
        np.append(np.zeros(flows), -1.0),
        A_ub=links.tocsr(),
        b_ub=np.array([capacities[edge] / scale for edge in edges]),
        A_eq=balance.tocsr(),
        b_eq=np.zeros(balance.shape[0]),
        method="highs",
    )
    return _time_s(8.0 * size_bytes, -solved.fun * scale if -solved.fun > _TOLERANCE else 0.0)


def limit_s(
    collective: str, capacities: Capacities, dcs: Sequence[str], size_bytes: float, root: str | None = None
) -> float:
    """Lower bound in seconds on that collective over constant `capacities`. KeyError if it is none of `LIMITS`.

    `size_bytes` is what one rank contributes to all_gather, gets from reduce_scatter, holds in all_reduce and broadcast
    (from `root`, the first DC unless given), and sends to each other in all_to_all.
    """
    if collective == "broadcast":
        return broadcast_limit_s(capacities, dcs, size_bytes, root or dcs[0])
    return LIMITS[collective](capacities, dcs, size_bytes)


def limit_fraction(limit_s: float | None, time_s: float) -> float | None:
    """What a collective of `time_s` has reached of its limit, 1 at most; None where no limit is known or finite."""
    return limit_s / time_s if limit_s is not None and math.isfinite(limit_s) and time_s > 0 else None


LIMITS = {
    "all_gather": allgather_limit_s,
    "reduce_scatter": reduce_scatter_limit_s,
    "all_reduce": all_reduce_limit_s,
    "all_to_all": all_to_all_limit_s,
}


def _time_s(bits: float, rate_bps: float) -> float:
    return bits / rate_bps if rate_bps > 0 else math.inf


def _max_flow_bps(capacities: Capacities, source: str, target: str) -> float:
    graph = nx.DiGraph()
    graph.add_nodes_from((source, target))
    graph.add_edges_from((a, b, {"capacity": _whole(rate)}) for (a, b), rate in capacities.items())
    return nx.maximum_flow_value(graph, source, target, flow_func=nx.algorithms.flow.dinitz) / _UNITS


def _whole(value: float) -> int:
    """In units so small that nothing is lost: networkx' Dinitz fails now and then where capacities are not integers."""
    return round(value * _UNITS)


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
        graph.add_edge(src, dst, capacity=_whole(bits))
    for dc in dcs:
        graph.add_edge(_SOURCE, dc, capacity=_whole(shard_bits))
    wanted = _whole(shard_bits) * len(dcs)
    cuts = []
    for dc in dcs:
        reached, (inside, _) = nx.minimum_cut(graph, _SOURCE, dc, flow_func=nx.algorithms.flow.dinitz)
        if reached < wanted * (1 - _TOLERANCE):
            cuts.append(frozenset(inside - {_SOURCE}))
    return cuts
