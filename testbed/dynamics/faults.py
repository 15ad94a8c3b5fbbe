"""Faults that an experiment file can ask for: what happens to which link or DC, when, and for how long.

Pure values, checked against a WAN before anything starts; `timeline` turns them into instants, others apply them.
Four kinds, because networks see them differently: a link that is `down` is noticed by its switches, a `blackhole` looks
healthy and passes nothing, a link that is `degrade`d passes less, and a `crash` ends the worker of a DC, which in an
elastic run may come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from testbed.dynamics.traces import edges_matching, no_such_link
from topologies import InputError, Wan
from topologies.errors import Fault, Place, did_you_mean
from topologies.fields import Duration, PositiveDuration, Rate, Strict


class _Passing(Strict):
    at: Duration
    """Seconds after the start of the arm."""
    duration: PositiveDuration | None = Field(default=None, alias="for")
    """Seconds until it is over; to the end of the arm unless given."""

    @property
    def end_s(self) -> float | None:
        """Seconds after the start at which the fault is over, or None for never."""
        return None if self.duration is None else self.at + self.duration

    def is_active(self, at_s: float) -> bool:
        """Whether it holds at that second after the start."""
        return self.at <= at_s and (self.end_s is None or at_s < self.end_s)


class DownSpec(_Passing):
    """The link is down at both ends: its switches see it at once."""

    kind: Literal["down"] = "down"
    link: str


class BlackholeSpec(_Passing):
    """The link seems up, and nothing passes in either direction."""

    kind: Literal["blackhole"] = "blackhole"
    link: str


class DegradeSpec(_Passing):
    """The link carries at most `rate`; `a->b` for one direction alone."""

    kind: Literal["degrade"] = "degrade"
    link: str
    rate: Rate


class CrashSpec(_Passing):
    """The worker of a DC is killed. Another one takes its place when it is over, in a run that is elastic."""

    kind: Literal["crash"] = "crash"
    dc: str


LEAST_DCS = 2
"""That a collective needs."""

FaultSpec = Annotated[DownSpec | BlackholeSpec | DegradeSpec | CrashSpec, Field(discriminator="kind")]
"""What stands in an experiment file under `faults:`."""


def fault_faults(
    specs: Sequence[FaultSpec], wan: Wan, duration_s: float | None = None, place: Place = ("faults",)
) -> Iterator[Fault]:
    """What does not fit between faults and a WAN, or a run of `duration_s`; `place` is where the list stands."""
    for index, spec in enumerate(specs):
        here = (*place, index)
        if isinstance(spec, CrashSpec):
            if spec.dc not in wan.dcs:
                yield Fault((*here, "dc"), f"{wan.name} has no such DC", spec.dc, did_you_mean(spec.dc, list(wan.dcs)))
        elif isinstance(spec, DegradeSpec):
            if not edges_matching(spec.link, wan):
                yield no_such_link(spec.link, wan, (*here, "link"))
        elif not _is_link(spec.link, wan):
            yield no_such_link(spec.link, wan, (*here, "link"))
        if duration_s is not None and spec.at >= duration_s:
            remedy = "let it happen earlier, or lengthen the run"
            yield Fault((*here, "at"), f"the run is over after {duration_s:g} s", spec.at, remedy)


def crash_faults(specs: Sequence[FaultSpec], wan: Wan, elastic: bool, place: Place = ("faults",)) -> Iterator[Fault]:
    """What does not fit between crashes and a run that is `elastic`, or is not."""
    crashes = [(index, spec) for index, spec in enumerate(specs) if isinstance(spec, CrashSpec)]
    for index, spec in crashes:
        if not elastic and spec.duration is not None:
            remedy = "give `elastic: true`, run with --elastic, or leave `for` out"
            yield Fault((*place, index, "for"), "a DC comes back only in an elastic run", spec.duration, remedy)
        gone = absent(specs, spec.at)
        if elastic and spec.dc in wan.dcs and len(set(wan.dcs) - gone) < LEAST_DCS:
            message = f"this leaves fewer than {LEAST_DCS} DCs: {', '.join(sorted(gone))} are gone at that time"
            yield Fault((*place, index, "dc"), message, spec.dc, "let others come back before, with `for`")


def absent(specs: Sequence[FaultSpec], at_s: float) -> set[str]:
    """The DCs that have no worker at that second after the start."""
    return {spec.dc for spec in specs if isinstance(spec, CrashSpec) and spec.is_active(at_s)}


def _is_link(name: str, wan: Wan) -> bool:
    try:
        wan.link(name)
    except InputError:
        return False
    return True
