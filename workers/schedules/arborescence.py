"""The cheapest arborescence from a root (Chu and Liu 1965, Edmonds 1967), on small dense graphs. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from workers.network import Pair


def cheapest_arborescence(costs: Mapping[Pair, float], root: int, ranks: int) -> list[Pair] | None:
    """Edges (parent, child), parents first, that reach every rank from `root` at the least sum; None if none does."""
    chosen = _edges(dict(costs), root, set(range(ranks)))
    return None if chosen is None else _from_root(chosen, root)


def _edges(costs: dict[Pair, float], root: int, nodes: set[int]) -> set[Pair] | None:
    """Every node takes its cheapest edge in; cycles are contracted to one node and opened where that is cheapest."""
    into: dict[int, tuple[float, Pair]] = {}
    for pair, cost in costs.items():
        a, b = pair
        if b != root and a != b and (b not in into or (cost, pair) < into[b]):
            into[b] = (cost, pair)
    if len(into) < len(nodes) - 1:
        return None
    cycle = _cycle({node: pair[0] for node, (_, pair) in into.items()})
    if not cycle:
        return {pair for _, pair in into.values()}
    whole = max(nodes) + 1
    contracted: dict[Pair, float] = {}
    origin: dict[Pair, Pair] = {}
    for (a, b), cost in costs.items():
        if a in cycle and b in cycle:
            continue
        pair = (whole if a in cycle else a, whole if b in cycle else b)
        reduced = cost - into[b][0] if b in cycle else cost
        if pair not in contracted or reduced < contracted[pair]:
            contracted[pair], origin[pair] = reduced, (a, b)
    inner = _edges(contracted, root, (nodes - cycle) | {whole})
    if inner is None:
        return None
    opened = {origin[pair] for pair in inner}
    entered = {b for _, b in opened}
    return opened | {pair for node, (_, pair) in into.items() if node in cycle and node not in entered}


def _cycle(parents: Mapping[int, int]) -> set[int]:
    """One cycle of the parents, or nothing."""
    for start in parents:
        seen: list[int] = []
        node = start
        while node in parents and node not in seen:
            seen.append(node)
            node = parents[node]
        if node in seen:
            return set(seen[seen.index(node) :])
    return set()


def _from_root(edges: set[Pair], root: int) -> list[Pair]:
    ordered, frontier = [], [root]
    while frontier:
        here = frontier.pop(0)
        below = sorted(pair for pair in edges if pair[0] == here)
        ordered += below
        frontier += [b for _, b in below]
    return ordered
