"""What theory says a measurement in exact mode has to give: rings over delays, reno's sawtooth, netem's jitter. Pure.

Times in seconds, rates in bit/s, sizes in bytes. Nothing here is fitted to what was measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


def ring_limit_s(dcs: int, size_bytes: int, rate_bps: float, sharing: int = 1) -> float:
    """The bytes alone: n−1 shards into every DC, over a link that `sharing` edges of the ring cross the same way."""
    return (dcs - 1) * size_bytes * 8 * sharing / rate_bps


def ring_over_delays_s(delays_s: Sequence[float], shard_s: float, chunk_s: float) -> float:
    """The shortest time of a pipelined ring, each edge of which has a delay: bytes and delays, where they overlap.

    Edge i leads from rank i to the next, with `delays_s[i]` each way, and carries a shard in `shard_s`. A rank sends
    its own shard once the receiver's word that it is ready has come, and every other one once the last has left and
    the first chunk of this one (`chunk_s` at the rate) has arrived. It is over when the last byte of the last is there.
    """
    ranks = len(delays_s)
    begins = list(delays_s)
    for _ in range(ranks - 2):
        arrives = [begins[rank - 1] + delays_s[rank - 1] + chunk_s for rank in range(ranks)]
        begins = [max(begins[rank] + shard_s, arrives[rank]) for rank in range(ranks)]
    return max(begin + shard_s + delay_s for begin, delay_s in zip(begins, delays_s, strict=True))


@dataclass(frozen=True)
class Sawtooth:
    """A reno flow that never lets its link run empty: windows in segments, the period in seconds."""

    highest: float
    average: float
    period_s: float


def sawtooth(rate_bps: float, frame_bytes: int, in_flight: float, queue: float) -> Sawtooth:
    """What additive increase and halving give where half the highest window still fills the link.

    `in_flight` segments are under way both ways at the link's rate, `queue` more can wait; one more is lost. The window
    w grows by one each round trip, which takes w ÷ C at C segments a second (Mathis et al. 1997, with a queue): from
    W/2 to W that is Σ w ÷ C = (3/8)·W² ÷ C, and the window's average over that time is (7/24)·W³ ÷ (3/8)·W² = (7/9)·W.
    """
    highest = in_flight + queue + 1
    per_s = rate_bps / 8 / frame_bytes
    return Sawtooth(highest, 7 / 9 * highest, 3 / 8 * highest**2 / per_s)


def measured_sawtooth(ends_s: Sequence[float], windows: Sequence[float]) -> Sawtooth:
    """The teeth of a window that was sampled evenly: highest values, average and distance between the falls.

    A fall is a window below 0.7 of the one before (or of the one before that: recovery takes a round trip). The part
    before the first fall, and that after the last, do not count.
    """
    falls = [
        index
        for index in range(2, len(windows))
        if windows[index] < 0.7 * max(windows[index - 2 : index]) and windows[index - 1] >= 0.7 * windows[index - 2]
    ]
    falls = [fall for before, fall in pairwise([-10, *falls]) if fall - before > 3]
    if len(falls) < 3:
        return Sawtooth(math.nan, math.nan, math.nan)
    peaks = [max(windows[begin:end]) for begin, end in pairwise(falls)]
    average = statistics.fmean(windows[falls[0] : falls[-1]])
    period_s = (ends_s[falls[-1]] - ends_s[falls[0]]) / (len(falls) - 1)
    return Sawtooth(statistics.fmean(peaks), average, period_s)


def round_trip_of_uniform_jitter(delay_s: float, jitter_s: float) -> tuple[float, float]:
    """Mean and standard deviation of a round trip whose two ways are each even over delay ± jitter, independently."""
    return 2 * delay_s, jitter_s * math.sqrt(2 / 3)


def chance_of_both_ways(loss: float) -> float:
    """That a round trip is lost whose two ways each lose with probability `loss`."""
    return 1 - (1 - loss) ** 2
