"""How fast a program's collectives could have been at best, on the WAN as it was while they ran. Pure.

Links change while a collective runs. Its limit is taken on links that have, all along, the highest rate that they had
meanwhile: lower than the true one where a rate changed, never above it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from topologies.model import Edge
from workers.limits import allgather_limit_s, limit_fraction, limit_s

PER_RANK = ("all_gather", "reduce_scatter")
"""Of these, a DC with several ranks has a shard for each; in the others its ranks hold the same or add it up first."""

ONCE_PER_DC = ("all_reduce", "broadcast")

SHARD_BYTES = 1e6
"""Any size: the rate is what counts."""


class Limits:
    """`segments`: (from which second of the trace on, bit/s of each edge until the next one); the last one lasts.

    Until the trace has started, what holds at its second 0 does; times are those of CLOCK_MONOTONIC.
    """

    def __init__(self, segments: Sequence[tuple[float, Mapping[Edge, float]]], dcs: Sequence[str]) -> None:
        self._segments, self._dcs = segments, tuple(dcs)
        self.started_at: float | None = None
        self._known: dict[tuple[object, ...], float] = {}

    def added(self, collective: dict[str, Any], dc_of: Sequence[str]) -> dict[str, Any]:
        """With `limit_s` and the fraction of it reached; None where none is known: one DC, or uneven ones."""
        counts = Counter(dc_of[rank] for rank in collective["ranks"])
        known = collective["kind"] in (*PER_RANK, *ONCE_PER_DC)
        if not known or len(counts) < 2 or len(set(counts.values())) > 1:
            return collective | {"limit_s": None, "limit_fraction": None}
        first, last = self._place(collective["start"]), self._place(collective["end"])
        per_dc = next(iter(counts.values())) if collective["kind"] in PER_RANK else 1
        key = (collective["kind"], collective["size_bytes"], tuple(counts), first, last)
        if key not in self._known:
            limit = _lower_bound_s(
                collective["kind"], self._highest(first, last), tuple(counts), per_dc * collective["size_bytes"]
            )
            self._known[key] = limit
        limit = self._known[key]
        reached = limit_fraction(limit, collective["end"] - collective["start"])
        return collective | {"limit_s": limit if math.isfinite(limit) else None, "limit_fraction": reached}

    def shard_bps(self, at: float) -> float:
        """The highest rate at which the shard of every DC can reach all others, on the links as they are at `at`."""
        place = self._place(at)
        if ("rate", place) not in self._known:
            limit = allgather_limit_s(self._segments[place][1], self._dcs, SHARD_BYTES)
            self._known["rate", place] = 8 * SHARD_BYTES / limit if limit > 0 else 0.0
        return self._known["rate", place]

    def _place(self, at: float) -> int:
        if self.started_at is None:
            return 0
        return max(0, bisect_right(self._segments, at - self.started_at, key=lambda segment: segment[0]) - 1)

    def _highest(self, first: int, last: int) -> dict[Edge, float]:
        rates: dict[Edge, float] = {}
        for _, capacities in self._segments[first : last + 1]:
            for edge, rate in capacities.items():
                rates[edge] = max(rate, rates.get(edge, 0.0))
        return rates


def _lower_bound_s(kind: str, capacities: Mapping[Edge, float], dcs: Sequence[str], size_bytes: float) -> float:
    """A broadcast's root is not on record: the bound of the root that is best placed holds for any."""
    if kind == "broadcast":
        return min(limit_s(kind, capacities, dcs, size_bytes, root) for root in dcs)
    return limit_s(kind, capacities, dcs, size_bytes)
