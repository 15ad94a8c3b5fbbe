"""Runs the reverse of a plan over gloo: partial sums flow up the trees along which a gather would flow down.

All receives are posted first, into scratch memory as large as what this rank receives (n−1 shards along a ring): gloo
moves nothing before its receiver has posted, and a window of fewer would let lanes wait for one another in a circle.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.distributed import ProcessGroupGloo, Work

from workers.collectives import all_gather, tag
from workers.lanes import run_sums
from workers.schedules.plan import Chunk, Send
from workers.schedules.reverse import AllReducePlan, ReducePlan, Sum

Combine = Callable[[torch.Tensor, torch.Tensor], object]
"""`combine(mine, part)` leaves the combination in `mine`: `torch.Tensor.add_`, or another that is associative."""


def reduce_scatter(
    group: ProcessGroupGloo,
    plan: ReducePlan,
    parts: torch.Tensor,
    epoch: int,
    sequence: int,
    combine: Combine = torch.Tensor.add_,
) -> torch.Tensor:
    """Combine every rank's `parts` (n × shard elements, contiguous); this rank's row of the result is returned.

    `parts` is overwritten: its other rows hold partial sums afterwards. Blocks until all of it is done. RuntimeError
    when a peer is gone or nothing moved for the group's timeout.
    """
    first = tag(epoch, sequence, 0)

    def mine(chunk: Chunk) -> torch.Tensor:
        return parts[chunk.shard].narrow(0, chunk.begin, chunk.end - chunk.begin)

    def send(s: Send) -> Work:
        return group.send([mine(s.chunk)], s.to, first + s.number)

    scratch: dict[Sum, list[torch.Tensor]] = {}
    lanes: dict[int, list[tuple[Sum, list[Work]]]] = {}
    for each in plan.sums:
        scratch[each] = [torch.empty_like(mine(each.chunk)) for _ in each.parts]
        works = [
            group.recv([buffer], part.source, first + part.number)
            for part, buffer in zip(each.parts, scratch[each], strict=True)
        ]
        lanes.setdefault(each.lane, []).append((each, works))

    def add(each: Sum) -> None:
        for buffer in scratch.pop(each):
            combine(mine(each.chunk), buffer)

    run_sums(lanes, add, send)
    return parts[group.rank()]


def all_reduce(
    group: ProcessGroupGloo,
    plan: AllReducePlan,
    data: torch.Tensor,
    epoch: int,
    sequence: int,
    combine: Combine = torch.Tensor.add_,
) -> None:
    """Combine every rank's `data` (n × shard elements, contiguous) in place: all ranks end with the same.

    Takes two numbers of `sequence`, this one and the next. Blocks until it is done; errors as in `reduce_scatter`.
    """
    own = reduce_scatter(group, plan.reduce, data, epoch, sequence, combine)
    all_gather(group, plan.gather, own.clone(), data, epoch, sequence + 1)
