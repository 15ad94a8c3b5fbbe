"""AllGather as one pipelined ring: each shard travels n−1 hops along the order, chunk by chunk. Pure.

All edges of the ring carry the same bytes at the same time, so the slowest edge sets the pace.
"""

from __future__ import annotations

from workers.schedules.plan import MAX_TRANSFERS, Chunk, RankPlan, Receive, Send, chunks_of


def ring(order: tuple[int, ...], rank: int, shard: int, chunk: int) -> RankPlan:
    """The plan of `rank`: it receives from its predecessor in `order` and sends to its successor.

    In step s it sends the shard of the rank s places before it, first its own. ValueError if the chunks are so small
    that their number does not fit into a tag.
    """
    n, place = len(order), order.index(rank)
    successor, predecessor = order[(place + 1) % n], order[place - 1]
    per_shard = -(-shard // chunk)
    if (n - 1) * per_shard > MAX_TRANSFERS:
        raise ValueError(f"{(n - 1) * per_shard} chunks in one collective, at most {MAX_TRANSFERS}: use larger ones")

    def send(step: int, index: int, piece: Chunk) -> Send:
        return Send(successor, piece, step * per_shard + index)

    first = tuple(send(0, index, piece) for index, piece in enumerate(chunks_of(rank, shard, chunk)))
    receives = tuple(
        Receive(
            predecessor,
            piece,
            step * per_shard + index,
            forward=(send(step + 1, index, piece),) if step < n - 2 else (),
        )
        for step in range(n - 1)
        for index, piece in enumerate(chunks_of(order[(place - 1 - step) % n], shard, chunk))
    )
    return RankPlan(first, receives)
