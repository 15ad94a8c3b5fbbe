"""What was measured of each pair, and how much of it still counts: an estimate loses weight with its age. Pure.

The newest measurement of a pair stands until a newer one comes. Its weight halves every half-life; what is left goes to
the prior: the weighted mean of what all pairs showed last. A pair that was bad long ago is thus tried again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.network import Matrix, Pair


@dataclass(frozen=True, slots=True)
class Estimate:
    """bit/s, and when it was measured (CLOCK_MONOTONIC seconds)."""

    rate_bps: float
    at_s: float


@dataclass(frozen=True)
class Estimates:
    """The newest estimate per pair, and the half-life of their weights in seconds (inf: they never age)."""

    half_life_s: float
    newest: Mapping[Pair, Estimate] = field(default_factory=dict)

    def measured(self, pair: Pair, rate_bps: float, at_s: float) -> Estimates:
        """With a measurement more; an older one than what is known changes nothing."""
        known = self.newest.get(pair)
        if known is not None and known.at_s > at_s:
            return self
        return Estimates(self.half_life_s, {**self.newest, pair: Estimate(rate_bps, at_s)})

    def at_least(self, pair: Pair, rate_bps: float, at_s: float) -> Estimates:
        """With the news that the pair gave at least that much: counts where the estimate has fallen below it."""
        return self.measured(pair, rate_bps, at_s) if rate_bps > self.rate_bps(pair, at_s) else self

    def weight(self, pair: Pair, now_s: float) -> float:
        """1 for what was measured just now, ½ after a half-life, 0 where nothing was measured."""
        known = self.newest.get(pair)
        return 0.0 if known is None else 0.5 ** (max(0.0, now_s - known.at_s) / self.half_life_s)

    def prior_bps(self, now_s: float) -> float:
        """What a pair is thought to give that nobody measured: the mean of all pairs by weight; 0 when none is."""
        weights = {pair: self.weight(pair, now_s) for pair in self.newest}
        total = sum(weights.values())
        return sum(weight * self.newest[pair].rate_bps for pair, weight in weights.items()) / total if total else 0.0

    def rate_bps(self, pair: Pair, now_s: float) -> float:
        """The measurement by its weight, the prior by the rest."""
        return self._mixed(pair, now_s, self.prior_bps(now_s))

    def matrix(self, ranks: int, now_s: float) -> Matrix:
        """Bit/s by rank; 0 on the diagonal."""
        prior = self.prior_bps(now_s)
        return tuple(
            tuple(0.0 if a == b else self._mixed((a, b), now_s, prior) for b in range(ranks)) for a in range(ranks)
        )

    def ages_s(self, ranks: int, now_s: float) -> Matrix:
        """Seconds since each pair was measured; inf where it never was, 0 on the diagonal."""
        return tuple(tuple(0.0 if a == b else self._age_s((a, b), now_s) for b in range(ranks)) for a in range(ranks))

    def _mixed(self, pair: Pair, now_s: float, prior_bps: float) -> float:
        known = self.newest.get(pair)
        if known is None:
            return prior_bps
        weight = self.weight(pair, now_s)
        return weight * known.rate_bps + (1 - weight) * prior_bps

    def _age_s(self, pair: Pair, now_s: float) -> float:
        known = self.newest.get(pair)
        return math.inf if known is None else max(0.0, now_s - known.at_s)
