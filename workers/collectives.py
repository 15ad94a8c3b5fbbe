"""Runs a plan over gloo: all receives are posted first, straight into the output, and sends go out of it: no copies.

gloo moves data only once the receiver has posted (rendezvous), and any `wait` with a short timeout closes every pair of
its context: so all receives are pre-posted with tags of their own, and only the group's own long timeout counts.
"""

from __future__ import annotations

import time

import torch
from torch.distributed import ProcessGroupGloo, Work

from workers.lanes import run_lanes
from workers.passive import Arrival
from workers.schedules.plan import MAX_TRANSFERS, Chunk, RankPlan, Receive, Send

_EPOCHS, _SEQUENCES = 2**6, 2**10


def tag(epoch: int, sequence: int, number: int) -> int:
    """31 bits: ring epoch (6), count of collectives (10), transfer (15, lowest, so that striping by tag alternates).

    Ranks that disagree about the epoch or the collective never match, instead of mixing shards.
    """
    return (epoch % _EPOCHS) * _SEQUENCES * MAX_TRANSFERS + (sequence % _SEQUENCES) * MAX_TRANSFERS + number


def all_gather(
    group: ProcessGroupGloo,
    plan: RankPlan,
    own: torch.Tensor,
    output: torch.Tensor,
    epoch: int,
    sequence: int,
    arrivals: list[Arrival] | None = None,
) -> None:
    """Gather every rank's shard into `output` (n × shard elements, contiguous); `own` is this rank's shard.

    Blocks until all shards are here and all sends have left for the kernel. RuntimeError when a peer is gone or
    nothing moved for the group's timeout. When each chunk came is appended to `arrivals`, what comes from one rank in
    its order.
    """
    first, rank = tag(epoch, sequence, 0), group.rank()

    def view(chunk: Chunk, shard: torch.Tensor) -> torch.Tensor:
        return shard.narrow(0, chunk.begin, chunk.end - chunk.begin)

    def send(s: Send) -> Work:
        shard = own if s.chunk.shard == rank else output[s.chunk.shard]
        return group.send([view(s.chunk, shard)], s.to, first + s.number)

    lanes: dict[int, list[tuple[Receive, Work]]] = {}
    for receive in plan.receives:
        work = group.recv([view(receive.chunk, output[receive.chunk.shard])], receive.source, first + receive.number)
        lanes.setdefault(receive.lane, []).append((receive, work))
    if len(lanes) > 1:
        output[rank].copy_(own)
        run_lanes(plan, lanes, send, arrivals)
        return
    leaving = [send(s) for s in plan.sends]
    output[rank].copy_(own)
    for receive, work in lanes.get(next(iter(lanes), 0), ()):
        work.wait()
        if arrivals is not None:
            arrivals.append(Arrival(receive.source, receive.chunk, time.monotonic()))
        leaving += [send(s) for s in receive.forward]
    for work in leaving:
        work.wait()


def stock_all_gather(group: ProcessGroupGloo, own: torch.Tensor, output: torch.Tensor) -> None:
    """gloo's own AllGather, for comparison; its ring follows the ranks, whatever the order."""
    group.allgather([list(output.unbind(0))], [own]).wait()
