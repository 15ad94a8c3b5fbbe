"""The k shortest loop-free paths between sites, exactly ordered: by length, then hops, then names. Pure.

Yen's algorithm (1971) without the deviations that an earlier path has tried already (Lawler, 1972). Each of its
searches is A* (Hart, Nilsson & Raphael, 1968) by the distance to the target in the whole graph, which is worked out
once for each target. networkx has the algorithm without these: tens of seconds for all pairs of 100 sites, not two.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from itertools import pairwise

from controller.view import Route
from topologies.model import Edge

_Path = tuple[int, ...]
"""Sites by number; numbers are in the order of names, so that paths compare as their names do."""

_NONE: frozenset[int] = frozenset()


def whole_lengths(lengths: Mapping[Edge, float]) -> dict[Edge, int]:
    """Whole numbers, so that sums are exact: length in billionths, then hops as the tie-break."""
    return {edge: (round(length * 1e9) << 20) + 1 for edge, length in lengths.items()}


class KShortest:
    """Paths over the directed edges of `lengths`, each above 0."""

    def __init__(self, lengths: Mapping[Edge, float]) -> None:
        self._names = sorted({site for edge in lengths for site in edge})
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._out: list[dict[int, int]] = [{} for _ in self._names]
        self._in: list[dict[int, int]] = [{} for _ in self._names]
        for (a, b), length in whole_lengths(lengths).items():
            self._out[self._numbers[a]][self._numbers[b]] = length
            self._in[self._numbers[b]][self._numbers[a]] = length
        self._distances: dict[int, dict[int, int]] = {}

    def routes(self, source: str, target: str, count: int) -> list[Route]:
        """At most `count` paths from one site to another, shortest first; fewer where there are no more."""
        start, end = self._numbers[source], self._numbers[target]
        first = self._shortest((start,), 0, end, _NONE)
        waiting = [] if first is None else [(*first, 0)]
        found: list[_Path] = []
        while waiting and len(found) < count:
            _, path, deviation = heapq.heappop(waiting)
            found.append(path)
            if len(found) < count:
                self._deviate(path, deviation, found, waiting)
        return [tuple(self._names[number] for number in path) for path in found]

    def _deviate(self, path: _Path, deviation: int, found: list[_Path], waiting: list[tuple[int, _Path, int]]) -> None:
        """For each site of a path from `deviation` on: the best path that is new and leaves this one there.

        Before `deviation` it is one with an earlier path, all of whose deviations are known.
        """
        length = sum(self._out[a][b] for a, b in pairwise(path[: deviation + 1]))
        for at in range(deviation, len(path) - 1):
            root = path[: at + 1]
            tried = frozenset(other[at + 1] for other in found if other[: at + 1] == root)
            best = self._shortest(root, length, path[-1], tried)
            if best is not None:
                heapq.heappush(waiting, (*best, at))
            length += self._out[path[at]][path[at + 1]]

    def _shortest(self, root: _Path, length: int, end: int, barred: Collection[int]) -> tuple[int, _Path] | None:
        """The shortest path that begins with `root`, of this length, and goes on to no `barred` site from there."""
        ahead = self._distances_to(end)
        if root[-1] not in ahead:
            return None
        closed = set(root[:-1])
        queue = [(length + ahead[root[-1]], root)]
        while queue:
            in_all, path = heapq.heappop(queue)
            here = path[-1]
            if here == end:
                return in_all, path
            if here in closed:
                continue
            closed.add(here)
            behind = in_all - ahead[here]
            for after, step in self._out[here].items():
                if after not in closed and after in ahead and not (path is root and after in barred):
                    heapq.heappush(queue, (behind + step + ahead[after], (*path, after)))
        return None

    def _distances_to(self, end: int) -> dict[int, int]:
        """From every site that can reach it (Dijkstra, 1959)."""
        if end not in self._distances:
            distances: dict[int, int] = {}
            queue = [(0, end)]
            while queue:
                distance, here = heapq.heappop(queue)
                if here not in distances:
                    distances[here] = distance
                    for before, step in self._in[here].items():
                        if before not in distances:
                            heapq.heappush(queue, (distance + step, before))
            self._distances[end] = distances
        return self._distances[end]
