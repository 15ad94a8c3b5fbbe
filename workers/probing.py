"""How probes are arranged and read: who meets whom when, and what rate a series of arrivals shows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median

MIN_SPACING_S = 1e-6
"""Arrivals that a clock cannot tell apart: the rate stays finite."""


def partners(ranks: int) -> tuple[tuple[int | None, ...], ...]:
    """Per round, the partner of each rank, or None for the one that sits out (odd counts only).

    Every pair of ranks meets once, and no rank is in two pairs of the same round.
    The circle method: in round t, seats i and j meet when i + j = 2t modulo an odd m, and seat t meets the seat m that
    is left: m = n−1 rounds for an even number of ranks; for an odd one seat m is empty and there are m = n rounds.
    """
    odd = ranks - 1 + ranks % 2

    def partner(turn: int, rank: int) -> int | None:
        met = turn if rank == odd else (2 * turn - rank) % odd
        met = odd if met == rank else met
        return met if met < ranks else None

    return tuple(tuple(partner(turn, rank) for rank in range(ranks)) for turn in range(odd))


def rate_bps(arrivals_s: Sequence[float], chunk_bytes: int) -> float:
    """Bit/s at which equal chunks arrive: from the median of the spacings between all pairs of arrivals.

    Theil and Sen's slope (P. K. Sen, JASA 63, 1968): a burst, or a stall before the first or last quarter of the
    chunks, hardly moves it, where the time from first to last would contain all of it.
    """
    spacings = [(late - early) / (j - i) for (i, early), (j, late) in combinations(enumerate(arrivals_s), 2)]
    return 8 * chunk_bytes / max(median(spacings), MIN_SPACING_S)
