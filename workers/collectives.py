"""Runs a plan over gloo: all receives are posted first, straight into the output, and sends go out of it: no copies.

gloo moves data only once the receiver has posted (rendezvous), and any `wait` with a short timeout closes every pair of
its context: so all receives are pre-posted with tags of their own, and only the group's own long timeout counts.
"""

from __future__ import annotations

import torch
from torch.distributed import ProcessGroupGloo, Work

from workers.schedules.plan import MAX_TRANSFERS, Chunk, RankPlan

_EPOCHS, _SEQUENCES = 2**6, 2**10


def tag(epoch: int, sequence: int, number: int) -> int:
    """31 bits: ring epoch (6), count of collectives (10), transfer (15, lowest, so that striping by tag alternates).

    Ranks that disagree about the epoch or the collective never match, instead of mixing shards.
    """
    return (epoch % _EPOCHS) * _SEQUENCES * MAX_TRANSFERS + (sequence % _SEQUENCES) * MAX_TRANSFERS + number


def all_gather(
    group: ProcessGroupGloo, plan: RankPlan, own: torch.Tensor, output: torch.Tensor, epoch: int, sequence: int
) -> None:
    """Gather every rank's shard into `output` (n × shard elements, contiguous); `own` is this rank's shard.

    Blocks until all shards are here and all sends have left for the kernel. RuntimeError when a peer is gone or
    nothing moved for the group's timeout.
    """
    rank = group.rank()
    first = tag(epoch, sequence, 0)

    def view(chunk: Chunk) -> torch.Tensor:
        return output[chunk.shard].narrow(0, chunk.begin, chunk.end - chunk.begin)

    arriving = [group.recv([view(r.chunk)], r.source, first + r.number) for r in plan.receives]
    leaving: list[Work] = [
        group.send([own.narrow(0, s.chunk.begin, s.chunk.end - s.chunk.begin)], s.to, first + s.number)
        for s in plan.sends
    ]
    output[rank].copy_(own)
    for receive, work in zip(plan.receives, arriving, strict=True):
        work.wait()
        leaving += [group.send([view(s.chunk)], s.to, first + s.number) for s in receive.forward]
    for work in leaving:
        work.wait()


def stock_all_gather(group: ProcessGroupGloo, own: torch.Tensor, output: torch.Tensor) -> None:
    """gloo's own AllGather, for comparison; its ring follows the ranks, whatever the order."""
    group.allgather([list(output.unbind(0))], [own]).wait()
