"""What became of numbered probes: when none came, how many were lost, which overtook others on their own path. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

ENTRY = numpy.dtype([("number", "u8"), ("at", "f8")])
"""As `numberedflow` writes them."""


@dataclass(frozen=True)
class Probes:
    """Both records of one flow: `sent` in order of the numbers from 0, `arrived` in order of arrival."""

    sent: numpy.ndarray
    arrived: numpy.ndarray

    @classmethod
    def load(cls, sent: Path, arrived: Path) -> Probes:
        """From the files that both ends have written."""
        return cls(numpy.fromfile(sent, ENTRY), numpy.fromfile(arrived, ENTRY))

    def longest_gap_s(self, begin: float, end: float) -> float:
        """The longest time without an arrival that begins in a span of time, or that lasts into it.

        A silence that the record does not see the end of counts up to `end`.
        """
        at = self.arrived["at"]
        first = max(0, int(numpy.searchsorted(at, begin, side="right")) - 1)
        last = int(numpy.searchsorted(at, end, side="right"))
        inside = at[first : last + 1]
        if last >= len(at):
            inside = numpy.append(inside, end)
        return float(numpy.diff(inside).max(initial=0.0))

    def lost(self, begin: float, end: float) -> int:
        """Of the probes that were sent in a span of time, those that never arrived."""
        numbers = self.between(begin, end)
        return int(len(numbers) - numpy.isin(numbers, self.arrived["number"]).sum())

    def between(self, begin: float, end: float) -> numpy.ndarray:
        """The numbers of the probes that were sent in a span of time."""
        at = self.sent["at"]
        return self.sent["number"][(at >= begin) & (at < end)]

    def order(self, begin: float, end: float) -> list[int]:
        """The numbers that arrived in a span of time, in order."""
        at = self.arrived["at"]
        return [int(number) for number in self.arrived["number"][(at >= begin) & (at < end)]]


def overtaken_on_their_path(order: Sequence[int]) -> int:
    """Arrivals that are out of order and that one move, from one path to another, cannot account for.

    A move sends probes below some number by one path, the rest by another; each path by itself keeps its order, and the
    shorter path may be ahead of the longer one by the difference. So there has to be a number that splits the arrivals
    into two rising sequences; else, with the best split, those count that come after a higher one of their own path.
    """
    late = [(number, max(order[:place])) for place, number in enumerate(order) if place and number < max(order[:place])]
    if not late:
        return 0
    return min(_late_of_their_part(order, split) for split in {number + 1 for number, _ in late})


def _late_of_their_part(order: Sequence[int], split: int) -> int:
    count = 0
    for part in ([n for n in order if n < split], [n for n in order if n >= split]):
        highest = -1
        for number in part:
            count += number < highest
            highest = max(highest, number)
    return count
