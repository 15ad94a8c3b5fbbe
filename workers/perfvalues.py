"""Numbers that a measured collective moves, and how many of its results are wrong. Knows no network.

Every element depends on its rank, its place and its round, and is so small a whole number that every type holds it, and
the sum over the ranks, exactly; so whatever order additions take, the result is known.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

DTYPES = {
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
}

PIECE = 2**20
"""Elements that are checked at a time."""

_PLACE, _RANK, _ROUND = 7919, 104729, 1299709
_MODULUS = {"sum": 13, "avg": 13, "prod": 2}
"""0 to 12 for sums: 19 ranks stay exact in bfloat16. 1 and 2 for products."""
_ELSE = 127
_TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6, torch.float64: 1e-14}
"""Relative: an average is rounded, and not every library divides where the others do."""

COMBINE: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "sum": torch.Tensor.add_,
    "avg": torch.Tensor.add_,
    "prod": torch.Tensor.mul_,
    "min": lambda mine, part: torch.minimum(mine, part, out=mine),
    "max": lambda mine, part: torch.maximum(mine, part, out=mine),
}
"""`combine(mine, part)` leaves the combination in `mine`."""


class Values:
    """What rank r holds at each place of its input in a round; `op` is the reduction's, or `none`."""

    def __init__(self, datatype: str, op: str) -> None:
        self.dtype, self._op = DTYPES[datatype], op

    def of(self, rank: int, begin: int, end: int, number: int) -> torch.Tensor:
        """Places `begin` to `end` of what `rank` gives in the round of that number."""
        places = torch.arange(begin, end, dtype=torch.int64) * _PLACE
        places += rank * _RANK + number * _ROUND
        places %= _MODULUS.get(self._op, _ELSE)
        return (places + 1 if self._op == "prod" else places).to(self.dtype)

    def fill(self, tensor: torch.Tensor, rank: int, number: int) -> None:
        """Make it the whole input of that rank."""
        for begin in range(0, tensor.numel(), PIECE):
            end = min(begin + PIECE, tensor.numel())
            tensor[begin:end] = self.of(rank, begin, end, number)

    def reduced(self, ranks: int, begin: int, end: int, number: int) -> torch.Tensor:
        """What those places come to over all ranks."""
        total = self.of(0, begin, end, number)
        for rank in range(1, ranks):
            COMBINE[self._op](total, self.of(rank, begin, end, number))
        if self._op == "avg":
            rounding = None if total.is_floating_point() else "trunc"
            torch.div(total, ranks, rounding_mode=rounding, out=total)
        return total

    def wrong(self, got: torch.Tensor, expected: Callable[[int, int], torch.Tensor]) -> int:
        """How many elements of `got` are not what `expected(begin, end)` says."""
        count = 0
        for begin in range(0, got.numel(), PIECE):
            end = min(begin + PIECE, got.numel())
            right = expected(begin, end)
            if self._op == "avg" and self.dtype in _TOLERANCE:
                count += int((~torch.isclose(got[begin:end], right, rtol=_TOLERANCE[self.dtype], atol=0)).sum())
            else:
                count += int((got[begin:end] != right).sum())
        return count
