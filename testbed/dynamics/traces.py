"""Traces: how the rates of links change while a run goes on, as values in a person's file and as timed changes.

Pure: the same spec, WAN, seed and duration give the same changes on any machine. The random stream of a link depends on
the seed and the link's name alone, so another link, or another trace beside it, changes nothing for it.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from topologies import Edge, InputError, Wan
from topologies.errors import Fault, Place, did_you_mean
from topologies.fields import Duration, PositiveDuration, Rate, Strict
from topologies.units import format_duration

ONE_WAY = "->"
"""`tokyo-oregon` means a link in both directions, `tokyo->oregon` means one of them."""


MAX_CHANGES = 1_000_000
"""Of one trace, in one arm: what a machine computes and keeps without trouble. Nothing measured needs more."""


@dataclass(frozen=True)
class Change:
    """From `at_s` seconds after the start, a directed edge carries `rate_bps`."""

    at_s: float
    edge: Edge
    rate_bps: float


@dataclass(frozen=True)
class Row:
    """One line of a trace file: from `at_s`, these edges carry `rate_bps`."""

    at_s: float
    edges: tuple[Edge, ...]
    rate_bps: float


class _OnLinks(Strict):
    links: str | list[str] = "*"
    """Names of links, or patterns with * and ?; `a->b` for one direction alone."""

    @property
    def patterns(self) -> list[str]:
        return [self.links] if isinstance(self.links, str) else self.links


class _Ranged(_OnLinks):
    every: PositiveDuration
    low: Rate
    high: Rate
    symmetric: bool = True
    """Both directions of a link have the same rate; otherwise each has a stream of its own."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError("low is above high; swap them")
        return self


class ConstantSpec(_OnLinks):
    """Nothing changes: the links keep `rate`, or the WAN's own rates where it is not given."""

    kind: Literal["constant"] = "constant"
    rate: Rate | None = None


class Step(Strict):
    """From `at`, the link carries `rate`."""

    at: Duration
    link: str
    rate: Rate


class StepsSpec(Strict):
    """Changes written out one by one; each link begins with the WAN's own rate."""

    kind: Literal["steps"] = "steps"
    steps: list[Step] = Field(min_length=1)


class RedrawSpec(_Ranged):
    """Every `every` seconds, from 0 on, a rate uniform in [low, high]; NetStorm's WAN: 180s, 20mbit, 155mbit."""

    kind: Literal["redraw"] = "redraw"


class WalkSpec(_Ranged):
    """A mean-reverting random walk: an Ornstein-Uhlenbeck process on the rate's logarithm, reflected at its bounds.

    Sampled exactly every `every` seconds (Gillespie, Phys. Rev. E 54, 1996, eq. 1.9a); begins in its stationary state.
    """

    kind: Literal["walk"] = "walk"
    mean: Rate | None = None
    """Where the walk returns to; the geometric middle of low and high unless given."""
    half_life: PositiveDuration = 30.0
    """Time after which half of a deviation is expected to be gone."""
    spread: float = Field(default=0.5, ge=0, le=5)
    """Standard deviation of the rate's natural logarithm, were there no bounds."""

    @model_validator(mode="after")
    def _mean_inside(self) -> Self:
        if self.mean is not None and not self.low <= self.mean <= self.high:
            raise ValueError("mean is not between low and high; move it inside")
        return self


class FileSpec(Strict):
    """Rates from a CSV file with the columns time, link, rate; it has to outlast the run, or hold, or repeat."""

    kind: Literal["file"] = "file"
    path: str = Field(min_length=1)
    hold: bool = False
    """After the last row, its rates stay."""
    repeat: bool = False
    """At the time of the last row the file begins again."""

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.hold and self.repeat:
            raise ValueError("hold and repeat exclude each other; keep one of them")
        return self


TraceSpec = Annotated[
    ConstantSpec | StepsSpec | RedrawSpec | WalkSpec | FileSpec,
    Field(discriminator="kind"),
]
"""What stands in an experiment file under `trace:`."""


def edges_matching(pattern: str, wan: Wan) -> tuple[Edge, ...]:
    """The directed edges that a name or pattern means, in the WAN's order; none if it means nothing."""
    found = []
    for link in wan.links:
        for a, b in link.edges:
            names = (link.name, f"{a}-{b}", f"{b}-{a}", f"{a}{ONE_WAY}{b}")
            if any(pattern == name or fnmatchcase(name, pattern) for name in names):
                found.append((a, b))
    return tuple(found)


def covered(spec: TraceSpec, wan: Wan, rows: Sequence[Row] = ()) -> tuple[Edge, ...]:
    """The directed edges whose rates a trace decides, in the WAN's order."""
    if isinstance(spec, FileSpec):
        meant = {edge for row in rows for edge in row.edges}
    else:
        meant = {edge for _, pattern in _references(spec) for edge in edges_matching(pattern, wan)}
    return tuple(edge for edge in wan.edges if edge in meant)


def trace_faults(spec: TraceSpec, wan: Wan, place: Place = ("trace",)) -> Iterator[Fault]:
    """What does not fit between a trace and a WAN; `place` is where the spec stands in its file."""
    for inside, pattern in _references(spec):
        if not edges_matching(pattern, wan):
            yield no_such_link(pattern, wan, (*place, *inside))


def size_faults(
    spec: TraceSpec, wan: Wan, duration_s: float, rows: Sequence[Row] = (), place: Place = ("trace",)
) -> Iterator[Fault]:
    """A trace that would change rates more often within `duration_s` than can be computed; `place` as above."""
    rounds = 0.0
    if isinstance(spec, _Ranged):
        place, rounds = (*place, "every"), duration_s / spec.every * len(covered(spec, wan))
    elif isinstance(spec, FileSpec) and spec.repeat and (length_s := _length_s(rows)) > 0:
        place, rounds = (*place, "path"), duration_s / length_s * sum(len(row.edges) for row in rows)
    if rounds > MAX_CHANGES:
        message = f"rates would change {rounds:.2g} times in {format_duration(duration_s)}"
        yield Fault(place, message, remedy=f"let them change less often: {MAX_CHANGES:,} times are the most")


def no_such_link(name: str, wan: Wan, place: Place) -> Fault:
    """The fault of a name that means no link, with the nearest name as remedy."""
    links = [link.name for link in wan.links]
    if ONE_WAY in name:
        links = [ONE_WAY.join(edge) for edge in wan.edges]
    return Fault(place, f"no link of {wan.name} is meant by this", name, did_you_mean(name, links))


def generate(spec: TraceSpec, wan: Wan, seed: int, duration_s: float, rows: Sequence[Row] = ()) -> tuple[Change, ...]:
    """Every change from time 0 to before `duration_s`, by time, then in the WAN's order of edges.

    At time 0 there is a change for each edge that the trace covers. `rows` are what `tracefile.read_rows` gave for a
    trace of kind `file`. InputError for a link that the WAN does not have, and for a file that ends before the run.
    """
    for fault in (*trace_faults(spec, wan), *size_faults(spec, wan, duration_s, rows)):
        raise fault.error()
    edges = covered(spec, wan, rows)
    match spec:
        case ConstantSpec():
            changes = [Change(0.0, edge, spec.rate or wan.edges[edge].rate_bps) for edge in edges]
        case StepsSpec():
            steps = [Row(step.at, edges_matching(step.link, wan), step.rate) for step in spec.steps]
            changes = _from_rows(steps, edges, wan)
        case FileSpec():
            changes = _from_rows(_until(rows, spec, duration_s), edges, wan)
        case _:
            changes = list(_random_changes(spec, edges, wan, seed, duration_s))
    return _in_time_order(changes, wan, duration_s)


def _references(spec: TraceSpec) -> Iterator[tuple[Place, str]]:
    """Every link that a spec names, and where in the spec."""
    match spec:
        case StepsSpec():
            yield from ((("steps", index, "link"), step.link) for index, step in enumerate(spec.steps))
        case _OnLinks(links=str()):
            yield ("links",), spec.links
        case _OnLinks():
            yield from ((("links", index), pattern) for index, pattern in enumerate(spec.links))


def _from_rows(rows: Iterable[Row], edges: Sequence[Edge], wan: Wan) -> list[Change]:
    """Rows as changes; before its first row an edge has the WAN's own rate."""
    at: dict[tuple[float, Edge], float] = {(0.0, edge): wan.edges[edge].rate_bps for edge in edges}
    at |= {(row.at_s, edge): row.rate_bps for row in rows for edge in row.edges}
    return [Change(at_s, edge, rate_bps) for (at_s, edge), rate_bps in at.items()]


def _until(rows: Sequence[Row], spec: FileSpec, duration_s: float) -> Iterator[Row]:
    """The rows of a file, again and again where it repeats. InputError where it ends too early."""
    length_s = _length_s(rows)
    if length_s < duration_s and not (spec.hold or spec.repeat):
        raise InputError(
            f"the trace ends at {length_s:g} s, the run at {duration_s:g} s",
            file=spec.path,
            remedy="add hold: true or repeat: true to the trace, lengthen the file, or shorten the run",
        )
    if spec.repeat and length_s <= 0:
        raise InputError("a trace that repeats has a last row later than 0 s", file=spec.path, remedy="add such a row")
    rounds = math.ceil(duration_s / length_s) if spec.repeat else 1
    for done in range(rounds):
        # The last row only says when the file begins again: at that time its first row holds.
        last = done == rounds - 1 and not spec.repeat
        yield from (
            Row(done * length_s + row.at_s, row.edges, row.rate_bps) for row in rows if row.at_s < length_s or last
        )


def _length_s(rows: Sequence[Row]) -> float:
    return max((row.at_s for row in rows), default=0.0)


def _random_changes(
    spec: RedrawSpec | WalkSpec, edges: Sequence[Edge], wan: Wan, seed: int, duration_s: float
) -> Iterator[Change]:
    for edge in edges:
        name = wan.link(edge).name
        stream = random_stream(seed, name if spec.symmetric else f"{name}\0{ONE_WAY.join(edge)}")
        rates = _redrawn(spec, stream) if isinstance(spec, RedrawSpec) else _walked(spec, stream)
        for index in range(math.ceil(duration_s / spec.every)):
            yield Change(index * spec.every, edge, next(rates))


def random_stream(seed: int, name: str) -> random.Random:
    """The random numbers that belong to a name under a seed, the same on every machine."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest))


def _redrawn(spec: RedrawSpec, stream: random.Random) -> Iterator[float]:
    while True:
        yield _inside(stream.uniform(spec.low, spec.high), spec)


def _walked(spec: WalkSpec, stream: random.Random) -> Iterator[float]:
    low, high = math.log(spec.low), math.log(spec.high)
    mean = math.log(spec.mean) if spec.mean else (low + high) / 2
    kept = 0.5 ** (spec.every / spec.half_life)
    fresh = spec.spread * math.sqrt(1 - kept**2)
    here = reflect(stream.gauss(mean, spec.spread), low, high)
    while True:
        yield _inside(math.exp(here), spec)
        here = reflect(mean + (here - mean) * kept + stream.gauss(0, fresh), low, high)


def reflect(value: float, low: float, high: float) -> float:
    """`value` folded into [low, high] as a ray between two mirrors."""
    if low <= value <= high or low == high:
        return min(max(value, low), high)
    width = high - low
    offset = (value - low) % (2 * width)
    return low + min(offset, 2 * width - offset)


def _inside(rate_bps: float, spec: RedrawSpec | WalkSpec) -> float:
    """Rounding never leaves the bounds."""
    return min(max(rate_bps, spec.low), spec.high)


def _in_time_order(changes: Iterable[Change], wan: Wan, duration_s: float) -> tuple[Change, ...]:
    rank = {edge: index for index, edge in enumerate(wan.edges)}
    within = (change for change in changes if change.at_s < duration_s or change.at_s == 0)
    return tuple(sorted(within, key=lambda change: (change.at_s, rank[change.edge])))
