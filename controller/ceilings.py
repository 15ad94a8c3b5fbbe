"""What links carry, learned from the counters of ports: a ceiling is only seen where a link is full. Pure.

A busy link says nothing about its capacity, a full one says everything. A link counts as full while its rate is steady
and packets are held up at its head: its port drops some, or the switch has taken in more than it has given out, poll
after poll, and no other of its links is busy (a switch tells what waits in it, not at which port). Until a link is seen
full, and again once it has not been for long, what the WAN's description says is believed. So an idle link that has
lost capacity looks as good as new until somebody fills it: that is what measuring costs against being told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from topologies.model import Edge

STEADY = 0.1
"""Two periods whose rates differ by more than this fraction are the begin or the end of a burst, not a ceiling."""

BUSY = 0.02
"""A link that carries less than this fraction of what its description says holds nothing up: acknowledgements do."""

STANDING_BYTES = 27_000
"""A queue: three jumbo frames more in the switch than at its emptiest, at the begin and at the end of a period."""

EMPTIEST_OF = 50
"""Polls that a switch's emptiest moment is looked for in: bytes that it lost or made itself are forgotten by then."""

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
    """Of a directed edge since its switches started.

    `carried_bytes` came out at its end, `dropped` packets were dropped at its head, and over all its ports the switch
    at its head has taken in `waiting_bytes` more than it has given out: what waits in it, up to a constant.
    """

    carried_bytes: int
    dropped: int
    waiting_bytes: int = 0


@dataclass(frozen=True)
class _Seen:
    counters: Counters
    at: float
    rate_bps: float = 0.0
    """Over the period before `at`; so is `steady`: as the period before."""
    steady: bool = False
    dropping: bool = False
    waiting: tuple[int, ...] = ()
    ceiling_bps: float | None = None
    full_at: float = 0.0

    @property
    def queue_stands(self) -> bool:
        return min(self.waiting[-2:]) - min(self.waiting) >= STANDING_BYTES


@dataclass(frozen=True)
class Ceilings:
    """What has been learned of each edge. `nominal_bps` is what the WAN's description says they carry."""

    nominal_bps: Mapping[Edge, float]
    told_bps: Mapping[Edge, float] = field(default_factory=dict)
    _seen: Mapping[Edge, _Seen] = field(default_factory=dict)

    def after(self, counters: Mapping[Edge, Counters], now: float) -> tuple[Ceilings, dict[Edge, float]]:
        """With one more poll; and the capacities, in bit/s, that are worth telling anew."""
        rated = {edge: self._rated(self._seen.get(edge), each, now) for edge, each in counters.items()}
        busy = [edge for edge, each in rated.items() if each.rate_bps >= BUSY * self.nominal_bps[edge]]
        heads = [source for source, _ in busy]
        seen = {edge: self._learned(edge, each, alone=heads.count(edge[0]) == 1) for edge, each in rated.items()}
        known = {edge: each.ceiling_bps or self.nominal_bps[edge] for edge, each in seen.items()}
        news = {edge: rate for edge, rate in known.items() if self._is_news(edge, rate)}
        return replace(self, told_bps={**self.told_bps, **news}, _seen={**self._seen, **seen}), news

    def _rated(self, before: _Seen | None, counters: Counters, now: float) -> _Seen:
        """How fast an edge was since the poll before."""
        if before is None:
            return _Seen(counters, now, waiting=(counters.waiting_bytes,))
        if counters.carried_bytes < before.counters.carried_bytes:
            started = _Seen(counters, now, waiting=(counters.waiting_bytes,))
            return replace(started, ceiling_bps=before.ceiling_bps, full_at=before.full_at)
        if now - before.at < SHORTEST_S:
            return before
        rate_bps = 8 * (counters.carried_bytes - before.counters.carried_bytes) / (now - before.at)
        return _Seen(
            counters=counters,
            at=now,
            rate_bps=rate_bps,
            steady=_is_close(rate_bps, before.rate_bps),
            dropping=counters.dropped > before.counters.dropped,
            waiting=(*before.waiting, counters.waiting_bytes)[-EMPTIEST_OF:],
            ceiling_bps=before.ceiling_bps if now - before.full_at <= MEMORY_S else None,
            full_at=before.full_at,
        )

    def _learned(self, edge: Edge, seen: _Seen, alone: bool) -> _Seen:
        """What that says of its ceiling; `alone` says that no other link is busy at its head."""
        before = self._seen.get(edge)
        if before is None or seen.at == before.at:
            return seen
        held_up = seen.dropping or before.dropping or (alone and seen.queue_stands)
        if held_up and seen.steady and seen.rate_bps >= BUSY * self.nominal_bps[edge]:
            return replace(seen, ceiling_bps=_averaged_bps(seen.ceiling_bps, seen.rate_bps), full_at=seen.at)
        if seen.ceiling_bps is not None and seen.rate_bps > seen.ceiling_bps * (1 + ABOVE):
            return replace(seen, ceiling_bps=seen.rate_bps)
        return seen

    def _is_news(self, edge: Edge, rate_bps: float) -> bool:
        told_bps = self.told_bps.get(edge, self.nominal_bps[edge])
        return abs(rate_bps - told_bps) > WORTH_TELLING * told_bps


def _is_close(one_bps: float, other_bps: float) -> bool:
    return abs(one_bps - other_bps) <= STEADY * max(one_bps, other_bps)


def _averaged_bps(ceiling_bps: float | None, rate_bps: float) -> float:
    if ceiling_bps is None or not _is_close(ceiling_bps, rate_bps):
        return rate_bps
    return ceiling_bps + WEIGHT * (rate_bps - ceiling_bps)
