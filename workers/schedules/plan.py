"""How the bytes of a collective move, as values: what one rank sends at once, what it receives, what it passes on.

A schedule is a pure function to these values; `workers.collectives` executes any of them over gloo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

MAX_TRANSFERS = 2**15
"""Transfers between one pair of ranks in one collective: more do not fit into a tag of gloo (see `collectives`)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements `begin` to `end` (exclusive) of the shard of one rank."""

    shard: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Send:
    """`chunk` goes to rank `to`; `number` is unique per collective among the transfers of this pair of ranks.

    Of the sends that wait for the same rank the one of the smallest `due` leaves first.
    """

    to: int
    chunk: Chunk
    number: int
    due: float = 0.0
    lane: int = 0


@dataclass(frozen=True, slots=True)
class Receive:
    """`chunk` comes from rank `source`, and as soon as it is there every one of `forward` leaves.

    What comes in one `lane` comes in the order of the plan; what comes in another waits for none of it. `due` is when
    its source should send it.
    """

    source: int
    chunk: Chunk
    number: int
    forward: tuple[Send, ...] = ()
    lane: int = 0
    due: float = 0.0


@dataclass(frozen=True, slots=True)
class RankPlan:
    """What one rank does: `sends` need only its own shard, `receives` stand in the order in which they should come."""

    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]


Schedule = Callable[[tuple[int, ...], int, int, int], RankPlan]
"""(ring order, rank, elements of a shard, elements of a chunk) → the plan of that rank. Pure."""


def chunks_of(owner: int, shard: int, chunk: int) -> Iterator[Chunk]:
    """The shard of `owner` cut into chunks of `chunk` elements; the last one is what is left."""
    for begin in range(0, shard, chunk):
        yield Chunk(owner, begin, min(begin + chunk, shard))
