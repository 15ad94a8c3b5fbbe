"""What links carry, learned from the counters of ports: a ceiling is only seen where a link is full. Pure.

A busy link says nothing about its capacity, a full one says everything. A link counts as full while the queue at its
head drops packets (`dropped` grows) and its rate is steady; until then, and again once it has not been full for long,
what the WAN's description says is believed. So an idle link that has lost capacity looks as good as new until somebody
uses it: that is what measuring costs against being told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from topologies.model import Edge

STEADY = 0.1
"""Two periods whose rates differ by more than this fraction are the begin or the end of a burst, not a ceiling."""

WEIGHT = 0.3
"""Of a new period against what was learned, where the two are within `STEADY` of each other."""

ABOVE = 0.02
"""A rate that exceeds a learned ceiling by more than this fraction disproves it."""

WORTH_TELLING = 0.05
"""A known capacity that changes by less than this fraction is not told: it is the jitter of the polls."""

MEMORY_S = 10.0
"""A ceiling is forgotten when the link has not been full for so long."""

SHORTEST_S = 0.05
"""Two polls closer than this, as after a stall, are taken as one."""


@dataclass(frozen=True)
class Counters:
    """Of a directed edge since its switches started: bytes that came out at its end, packets dropped at its head."""

    carried_bytes: int
    dropped: int


@dataclass(frozen=True)
class _Seen:
    counters: Counters
    at: float
    rate_bps: float = 0.0
    """Over the period before `at`."""
    dropping: bool = False
    """Whether packets were dropped in it."""
    ceiling_bps: float | None = None
    full_at: float = 0.0


@dataclass(frozen=True)
class Ceilings:
    """What has been learned of each edge. `nominal_bps` is what the WAN's description says they carry."""

    nominal_bps: Mapping[Edge, float]
    told_bps: Mapping[Edge, float] = field(default_factory=dict)
    _seen: Mapping[Edge, _Seen] = field(default_factory=dict)

    def after(self, counters: Mapping[Edge, Counters], now: float) -> tuple[Ceilings, dict[Edge, float]]:
        """With one more poll; and the capacities, in bit/s, that are worth telling anew."""
        seen = {edge: self._after(edge, each, now) for edge, each in counters.items()}
        known = {edge: each.ceiling_bps or self.nominal_bps[edge] for edge, each in seen.items()}
        news = {edge: rate for edge, rate in known.items() if self._is_news(edge, rate)}
        return replace(self, told_bps={**self.told_bps, **news}, _seen={**self._seen, **seen}), news

    def _after(self, edge: Edge, counters: Counters, now: float) -> _Seen:
        before = self._seen.get(edge)
        if before is None:
            return _Seen(counters, now)
        if counters.carried_bytes < before.counters.carried_bytes:
            return replace(before, counters=counters, at=now, rate_bps=0.0, dropping=False)
        if now - before.at < SHORTEST_S:
            return before
        rate_bps = 8 * (counters.carried_bytes - before.counters.carried_bytes) / (now - before.at)
        dropping = counters.dropped > before.counters.dropped
        ceiling_bps = before.ceiling_bps if now - before.full_at <= MEMORY_S else None
        after = _Seen(counters, now, rate_bps, dropping, ceiling_bps, before.full_at)
        if (dropping or before.dropping) and _is_close(rate_bps, before.rate_bps):
            return replace(after, ceiling_bps=_learned_bps(ceiling_bps, rate_bps), full_at=now)
        if ceiling_bps is not None and rate_bps > ceiling_bps * (1 + ABOVE):
            return replace(after, ceiling_bps=rate_bps)
        return after

    def _is_news(self, edge: Edge, rate_bps: float) -> bool:
        told_bps = self.told_bps.get(edge, self.nominal_bps[edge])
        return abs(rate_bps - told_bps) > WORTH_TELLING * told_bps


def _is_close(one_bps: float, other_bps: float) -> bool:
    return abs(one_bps - other_bps) <= STEADY * max(one_bps, other_bps) and one_bps > 0


def _learned_bps(ceiling_bps: float | None, rate_bps: float) -> float:
    if ceiling_bps is None or not _is_close(ceiling_bps, rate_bps):
        return rate_bps
    return ceiling_bps + WEIGHT * (rate_bps - ceiling_bps)
