"""AllGather as two pipelined rings, one each way round, each with half of every shard. Pure.

Links are full duplex, so where both directions are alike it takes half the time of one ring.
"""

from __future__ import annotations

from workers.schedules.forest import along_ring, plan_of
from workers.schedules.plan import RankPlan


def bidirectional(order: tuple[int, ...], rank: int, shard: int, chunk: int) -> RankPlan:
    """The plan of `rank` along `order` and against it. ValueError if there are too many chunks for a tag."""
    there, back = along_ring(order, 0.5, lane=0), along_ring(tuple(reversed(order)), 0.5, lane=1)
    return plan_of(there + back, rank, shard, chunk)
