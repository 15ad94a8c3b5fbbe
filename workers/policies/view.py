"""What a ring policy sees and what it returns. Pure values.

Bandwidths are a matrix by rank: row = from, column = to, bit/s; the diagonal means nothing. Direction matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Order = tuple[int, ...]
"""Ranks in the order of the ring; each sends to the next, the last to the first. Rotations are the same ring."""

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class RingView:
    """The collective as a policy sees it.

    `listed` is the order of the ranks as the job lists them, `margin` the gain in bottleneck (0.1 = 10 %) that a change
    must exceed, `seed` and `turn` (count of decisions so far) are for policies that draw.
    """

    bandwidths: Matrix
    current: Order
    listed: Order
    margin: float = 0.0
    seed: int = 0
    turn: int = 0


Policy = Callable[[RingView], Order]
"""A ring policy: same view, same order, always."""


def bottleneck_bps(bandwidths: Matrix, order: Order) -> float:
    """Bit/s of the slowest edge of the ring."""
    return min(bandwidths[a][b] for a, b in zip(order, (*order[1:], order[0]), strict=True))


def from_first(order: Order, first: int = 0) -> Order:
    """The same ring, turned so that it begins with rank `first`: two rings are equal exactly if these are."""
    place = order.index(first)
    return (*order[place:], *order[:place])
