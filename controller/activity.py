"""Which pairs are sending, from the byte counters of their ingress rules. Pure; `now` is an argument.

A switch may show its counters up to half a second late, and not all of them at the same moment; hence the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.view import Pair

MEMORY_S = 1.5
"""A pair counts as sending until others have gone on for this long without it."""

FLOOR_BYTES = 20_000
"""What a sending pair grows by from one poll to the next, at least: two jumbo frames."""

FRACTION_OF_BUSIEST = 0.05
"""Less than this of the busiest pair's growth is acknowledgements (1 in 280 at MTU 9000) or control, not load."""


@dataclass(frozen=True)
class Activity:
    """Counters as last seen, and when each pair was last seen to send.

    While nobody sends, the pairs that sent last stay active: a pause between two collectives changes no demand.
    """

    counters: Mapping[Pair, int] = field(default_factory=dict)
    sent_at: Mapping[Pair, float] = field(default_factory=dict)

    @property
    def pairs(self) -> frozenset[Pair]:
        """Those within `MEMORY_S` of the newest; none before the second poll."""
        newest = max(self.sent_at.values(), default=0.0)
        return frozenset(pair for pair, at in self.sent_at.items() if at >= newest - MEMORY_S)

    def after(self, counters: Mapping[Pair, int], now: float) -> Activity:
        """With one more poll. A counter that fell was reset with its rule, and shows what was counted since."""
        growth = {
            pair: count - self.counters[pair] if count >= self.counters[pair] else count
            for pair, count in counters.items()
            if pair in self.counters
        }
        enough = max(FLOOR_BYTES, FRACTION_OF_BUSIEST * max(growth.values(), default=0))
        sending = {pair: now for pair, grown in growth.items() if grown >= enough}
        return Activity({**self.counters, **counters}, {**self.sent_at, **sending})
