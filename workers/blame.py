"""Which rank is to blame when several report trouble: one death makes its neighbours fail too. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """Causes before consequences: the smallest is the culprit's."""

    DIED = 0
    """The process ended without a word."""
    FAILED = 1
    """It found something wrong itself: a result, a setting, a decision."""
    CONNECTION = 2
    """Its connection to a peer broke or stalled: most often because of somebody else."""


@dataclass(frozen=True)
class Failure:
    """What is known of one rank's trouble."""

    rank: int
    kind: Kind
    message: str


def culprit(failures: Sequence[Failure]) -> Failure:
    """The failure to report: the nearest to a cause, and of those the first.

    Of broken connections a wait that timed out is nearer to it: it is what closes the others.
    """
    return min(failures, key=lambda failure: (failure.kind, "imed out" not in failure.message))


def is_certain(failures: Sequence[Failure]) -> bool:
    """Whether no later report could be nearer to the cause."""
    return any(failure.kind is not Kind.CONNECTION for failure in failures)
