"""One measured figure and what it has to reach. Pure: knows values and limits, not how they are measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from topologies import RingroadError


@dataclass(frozen=True)
class Reach:
    """The closed range that a figure has to lie in; an end that is None is open.

    With `decimals` a value counts as it is written with so many: for what has to equal a peer and cannot be below.
    """

    at_least: float | None = None
    at_most: float | None = None
    decimals: int | None = None

    def holds(self, value: float) -> bool:
        """Whether the value lies in the range; never for a value that is not a number."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return low <= (value if self.decimals is None else round(value, self.decimals)) <= high

    def __str__(self) -> str:
        if self.at_least is None and self.at_most is None:
            return "measured"
        if self.at_least is None:
            return f"≤ {self.at_most:g}" if self.decimals is None else f"≤ {self.at_most:.{self.decimals}f}"
        if self.at_most is None:
            return f"≥ {self.at_least:g}"
        return f"{self.at_least:g}" if self.at_least == self.at_most else f"{self.at_least:g} – {self.at_most:g}"


@dataclass(frozen=True)
class Figure:
    """`values` are all that has to lie within reach, in `unit`; `shown` is the one to report, or None if it failed.

    `against` says what the value is compared with, so that it means something on another machine.
    """

    name: str
    unit: str
    against: str
    reach: Reach
    values: tuple[float, ...]
    shown: float | None

    @property
    def reached(self) -> bool:
        """All values lie within reach, and there is at least one."""
        return bool(self.values) and all(self.reach.holds(value) for value in self.values)

    def as_json(self) -> dict[str, Any]:
        """With five significant digits, which is more than any of these measurements repeats to."""
        return {
            "name": self.name,
            "value": None if self.shown is None else float(f"{self.shown:.5g}"),
            "unit": self.unit,
            "against": self.against,
            "reach": str(self.reach),
            "reached": self.reached,
        }


def figure(name: str, value: float, unit: str, against: str, reach: Reach) -> Figure:
    """A figure of one value."""
    return Figure(name, unit, against, reach, (value,), value)


def worst_of(name: str, values: Iterable[float], unit: str, against: str, reach: Reach) -> Figure:
    """A figure that every one of `values` has to reach; reports the one that is furthest out, or nearest to an end."""
    measured = tuple(values)

    def _room(value: float) -> float:
        rooms = [value - reach.at_least] if reach.at_least is not None else []
        rooms += [reach.at_most - value] if reach.at_most is not None else []
        return min(rooms)

    return Figure(name, unit, against, reach, measured, min(measured, key=_room) if measured else None)


def failed(name: str, unit: str, against: str, reach: Reach) -> Figure:
    """A figure that could not be measured: no value, not reached."""
    return Figure(name, unit, against, reach, (), None)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 < share ≤ 1) of the values do not exceed: the nearest-rank method."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def table(figures: Sequence[Figure]) -> str:
    """For people: one line per figure, columns aligned."""
    rows = [("figure", "value", "reach", "reached", "against")]
    for each in figures:
        plain = each.as_json()
        value = "failed" if plain["value"] is None else f"{plain['value']:g} {each.unit}".rstrip()
        rows.append((each.name, value, plain["reach"], "yes" if each.reached else "NO", each.against))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip() for row in rows
    )


Part = Callable[[], Iterable[Figure]]
"""A piece of a benchmark; the first line of its docstring says what it measures."""


def figures_of(parts: Iterable[Part], say: Callable[[str], None]) -> Iterator[Figure]:
    """The figures of all parts, each announced to `say`. One that fails is a figure not reached; the others go on."""
    for part in parts:
        what = (part.__doc__ or part.__name__).splitlines()[0]
        say(what)
        try:
            yield from part()
        except RingroadError as error:
            say(f"failed: {error}")
            yield failed(what, "", "", Reach())
