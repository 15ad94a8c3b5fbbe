"""Who probes whom when: every pair of ranks meets once, and no rank is in two pairs of the same round. Pure."""

from __future__ import annotations


def partners(ranks: int) -> tuple[tuple[int | None, ...], ...]:
    """Per round, the partner of each rank, or None for the one that sits out (odd counts only).

    The circle method: in round t, seats i and j meet when i + j = 2t modulo an odd m, and seat t meets the seat m that
    is left: m = n−1 rounds for an even number of ranks; for an odd one seat m is empty and there are m = n rounds.
    """
    odd = ranks - 1 + ranks % 2

    def partner(turn: int, rank: int) -> int | None:
        met = turn if rank == odd else (2 * turn - rank) % odd
        met = odd if met == rank else met
        return met if met < ranks else None

    return tuple(tuple(partner(turn, rank) for rank in range(ranks)) for turn in range(odd))
