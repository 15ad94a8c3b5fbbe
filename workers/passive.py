"""Bandwidths from what a collective shows anyway: when its chunks came. No byte more moves. Pure.

A rank has the whole of its own shard when the collective starts, so the chunks of it keep the link to the next rank
busy, and the spacing of their arrivals is what that link gave, with everything else that it carried meanwhile. Chunks
that were passed on come no faster than they came to the one who passes them on: they only show that the link gives at
least that much. What it cannot see: any pair that the present schedule does not use, what a link could carry beside
what the collective itself put on it, and times between collectives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from workers.estimates import Estimates
from workers.network import Matrix
from workers.probing import rate_bps
from workers.schedules.plan import Chunk

LEAD = 1
"""First arrivals left out: a shaper's burst allowance lets them come too early."""

CHUNKS_TO_SEE = 12
"""A shard is cut into at least so many where somebody wants to see it come."""

FEWEST = 3
"""Spacings between fewer arrivals say nothing."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """`chunk` was here at `at_s` (CLOCK_MONOTONIC), from rank `source`."""

    source: int
    chunk: Chunk
    at_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What the link from `source` gave; `is_floor`: at least, since the chunks may have been late at the source."""

    source: int
    rate_bps: float
    is_floor: bool
    at_s: float


def seen(arrivals: Iterable[Arrival], element_bytes: int) -> list[Seen]:
    """What one rank saw in one collective, per source: exact where the source's own shard came in enough chunks.

    Only runs of equal chunks count (the last of a shard is shorter), and `LEAD` of each run are left out.
    """
    found = []
    by_source = sorted(arrivals, key=lambda arrival: arrival.source)
    for _, of_source in groupby(by_source, key=lambda arrival: arrival.source):
        estimates = list(_runs(list(of_source), element_bytes))
        own = [each for each in estimates if not each.is_floor]
        floors = sorted((each for each in estimates if each.is_floor), key=lambda each: each.rate_bps)
        found += own or floors[-1:]
    return found


def _runs(arrivals: Sequence[Arrival], element_bytes: int) -> Iterable[Seen]:
    """One estimate per shard that came over this link in one piece."""
    for shard, run in groupby(arrivals, key=lambda arrival: arrival.chunk.shard):
        of_shard = list(run)
        size = max(arrival.chunk.end - arrival.chunk.begin for arrival in of_shard)
        equal = [a for a in of_shard if a.chunk.end - a.chunk.begin == size][LEAD - 1 :]
        if len(equal) > FEWEST:
            rate = rate_bps([arrival.at_s for arrival in equal], size * element_bytes)
            yield Seen(equal[0].source, rate, shard != equal[0].source, equal[-1].at_s)


class Passive:
    """One rank's latest sights until the leader asks for them, and at the leader what is left of all of them."""

    def __init__(self, half_life_s: float) -> None:
        self._latest: dict[int, Seen] = {}
        self._estimates = Estimates(half_life_s)

    def observe(self, sights: Sequence[Seen]) -> None:
        """Keep the latest sight of each source."""
        self._latest |= {sight.source: sight for sight in sights}

    def row(self, ranks: int) -> list[float]:
        """Per source: bit/s (0: nothing new), whether that is a floor, when; and forget it."""
        row = []
        for source in range(ranks):
            sight = self._latest.get(source)
            row += [sight.rate_bps, float(sight.is_floor), sight.at_s] if sight else [0.0, 0.0, 0.0]
        self._latest = {}
        return row

    def known(self, rows: Sequence[Sequence[float]], now_s: float) -> tuple[Matrix, Matrix]:
        """Bandwidths and ages in s, after the news of every rank: `rows[r]` is what rank r saw."""
        for rank, row in enumerate(rows):
            for source in range(len(rows)):
                rate, is_floor, at_s = row[3 * source : 3 * source + 3]
                if rate > 0:
                    add = self._estimates.at_least if is_floor else self._estimates.measured
                    self._estimates = add((source, rank), rate, at_s)
        return self._estimates.matrix(len(rows), now_s), self._estimates.ages_s(len(rows), now_s)


def newest(rows: Sequence[Sequence[float]], members: Sequence[Sequence[int]]) -> list[list[float]]:
    """Rows of ranks as rows of places, each of several ranks: for two places, the newest sight between ranks of them.

    `rows[r]` is what rank r saw, see `Passive.row`; `members[p]` are the ranks of place p.
    """

    def between(sources: Sequence[int], target: Sequence[int]) -> Sequence[float]:
        sights = [rows[rank][3 * source : 3 * source + 3] for rank in target for source in sources]
        return max(sights, key=lambda sight: (sight[0] > 0, sight[2]))

    nothing = [0.0, 0.0, 0.0]
    return [[value for a in members for value in (nothing if a == b else between(a, b))] for b in members]
