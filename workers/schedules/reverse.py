"""ReduceScatter and AllReduce out of an AllGather's plan: the same trees, run from their leaves to their root. Pure.

Where a gather passes a chunk from a rank to its children, a reduce waits for the children's partial sums, adds its own
part and passes the sum to the parent; the root ends with the sum of all. A gather's plan for the network with every
link reversed makes a reduce's plan for the network as it is (`workers.network.reversed_network`), at the same pace.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.schedules.plan import Chunk, RankPlan, Send


@dataclass(frozen=True, slots=True)
class PartialSum:
    """`chunk` from rank `source`, already summed over everything behind it."""

    source: int
    number: int


@dataclass(frozen=True, slots=True)
class Sum:
    """What a rank makes of one chunk of the result of rank `chunk.shard`: its own part plus `parts`.

    It leaves by `send` as soon as all parts are in; None: this rank is the one whose result it is. The sums of one
    `lane` fill in the order of the plan, those of another wait for none of them.
    """

    chunk: Chunk
    parts: tuple[PartialSum, ...]
    send: Send | None
    lane: int = 0


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """What one rank does in a ReduceScatter: sums without parts can leave at once, the others as they fill."""

    sums: tuple[Sum, ...]


def reduce_scatter(plan: RankPlan) -> ReducePlan:
    """The ReduceScatter along the edges of this rank's AllGather plan, each the other way round.

    Transfers keep their numbers: what came from a rank goes to it. All runs backwards, so that what came last in the
    gather, from furthest away, leaves first.
    """
    passed_on = [
        Sum(r.chunk, _parts(r.forward), Send(r.source, r.chunk, r.number, -r.due, r.lane), r.lane)
        for r in reversed(plan.receives)
    ]
    by_chunk: dict[Chunk, list[Send]] = {}
    for send in plan.sends:
        by_chunk.setdefault(send.chunk, []).append(send)
    own = [Sum(chunk, _parts(tuple(sends)), None, sends[0].lane) for chunk, sends in reversed(by_chunk.items())]
    return ReducePlan((*passed_on, *own))


@dataclass(frozen=True, slots=True)
class AllReducePlan:
    """A ReduceScatter, and the AllGather that spreads what it leaves with each rank; chunks of both may overlap."""

    reduce: ReducePlan
    gather: RankPlan


def all_reduce(towards: RankPlan, away: RankPlan) -> AllReducePlan:
    """Both phases for one rank: `towards` is its gather plan on the reversed network, `away` that on the network.

    The shard of rank r is the part of the buffer that r sums up. Numbers of the two phases overlap: the executor gives
    the second one a tag of its own.
    """
    return AllReducePlan(reduce_scatter(towards), away)


def _parts(sends: tuple[Send, ...]) -> tuple[PartialSum, ...]:
    return tuple(PartialSum(send.to, send.number) for send in sends)
