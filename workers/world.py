"""Who takes part from one collective to the next, as a value: the ranks of a world and their ring.

A job begins with a world of all its ranks. When ranks die or come back, a new one is formed; nothing of the one before
goes on in it. Pure: the crew decides when, the ranks join.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from workers.job import Job
from workers.network import Order


@dataclass(frozen=True)
class World:
    """`members` are ranks of the job, ascending; `order` is their ring, `epoch` the count of ring changes so far."""

    generation: int
    members: tuple[int, ...]
    order: Order
    epoch: int = 0

    @property
    def places(self) -> Order:
        """The ring in places: a rank's place in `members` is its rank in the process group."""
        return tuple(self.members.index(rank) for rank in self.order)

    def ranks(self, places: Sequence[int]) -> list[int]:
        """Ranks of the job out of ranks of the process group."""
        return [self.members[place] for place in places]

    def job(self, job: Job) -> Job:
        """The job as those who are there see it: the others' DCs do not exist."""
        return replace(job, ranks=tuple(job.ranks[rank] for rank in self.members), start_order=None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `world_from_json` gives an equal world."""
        return asdict(self)


def world_from_json(plain: dict[str, Any]) -> World:
    """The world that `World.to_json` wrote."""
    return World(plain["generation"], tuple(plain["members"]), tuple(plain["order"]), plain["epoch"])


def first_world(job: Job) -> World:
    """All ranks, in the order that the job begins with."""
    return World(0, tuple(range(len(job.ranks))), home(job))


def home(job: Job) -> Order:
    """The order in which ranks that come back find their place."""
    return job.start_order or tuple(range(len(job.ranks)))


def reformed(world: World, members: Collection[int], home: Order) -> World:
    """The next world, of `members`. Who stays keeps the order of the ring; who comes stands where `home` has it.

    That is after the nearest of those before it in `home` who are there. The epoch counts up if the ring has changed.
    """
    order = [rank for rank in world.order if rank in members]
    for at, rank in enumerate(home):
        if rank in members and rank not in order:
            before = next((home[at - back] for back in range(1, len(home)) if home[at - back] in order), None)
            order.insert(0 if before is None else order.index(before) + 1, rank)
    changed = tuple(order) != world.order
    return World(world.generation + 1, tuple(sorted(members)), tuple(order), world.epoch + changed)


def in_world(world: World, order: Sequence[int]) -> Order:
    """A ring of the job's ranks without those who are not there."""
    return tuple(rank for rank in order if rank in world.members)
