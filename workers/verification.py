"""Shards that say what they are: every element encodes its rank, its collective and its place.

A shard that is swapped, stale, shifted, torn or damaged cannot pass. Knows no network.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from topologies.errors import RingroadError

_PLACE = 0x9E3779B1
"""Odd, so that 2³² places in a row all differ (multiplication by it is a bijection modulo 2³²)."""


class VerificationError(RingroadError):
    """A result differs from what the ranks contributed."""


class Pattern:
    """The shards of `elements` int32 values that ranks contribute, by rank and collective."""

    def __init__(self, elements: int) -> None:
        places = torch.arange(elements, dtype=torch.int64) * _PLACE
        self._places = _as_int32(places)
        self._expected = torch.empty_like(self._places)

    def fill(self, shard: torch.Tensor, rank: int, collective: int) -> None:
        """Write the shard that `rank` contributes to that collective."""
        torch.add(self._places, _offset(rank, collective), out=shard)

    def check(self, output: torch.Tensor, collective: int, ranks: Sequence[int] | None = None) -> None:
        """Compare every element of `output` (n × elements). VerificationError names shard, element and both values.

        Row i comes from `ranks[i]`, or from rank i.
        """
        for row, shard in enumerate(range(output.shape[0]) if ranks is None else ranks):
            self.fill(self._expected, shard, collective)
            if not torch.equal(output[row], self._expected):
                self._report(output[row], shard, collective)

    def _report(self, got: torch.Tensor, shard: int, collective: int) -> None:
        different = (got != self._expected).nonzero().flatten()
        element = int(different[0])
        raise VerificationError(
            f"collective {collective}, shard {shard}: {len(different)} of {len(got)} elements are wrong, "
            f"first element {element}: expected {int(self._expected[element])}, got {int(got[element])}"
        )


def _offset(rank: int, collective: int) -> int:
    """A number far from those of other ranks and collectives, as a signed 32-bit value (splitmix64's finalizer)."""
    mask = 2**64 - 1
    value = ((collective + 2**20) * 2**16 + rank + 1) * 0x9E3779B97F4A7C15 & mask
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & mask
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & mask
    low = (value ^ (value >> 31)) & (2**32 - 1)
    return low - 2**32 if low >= 2**31 else low


def _as_int32(values: torch.Tensor) -> torch.Tensor:
    low = values & (2**32 - 1)
    return torch.where(low >= 2**31, low - 2**32, low).to(torch.int32)
