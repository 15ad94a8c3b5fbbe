"""How tensors are cut into shards and chunks, and in which order the chunks of a reduction travel. Pure.

Every rank computes the same cut from what all ranks know, so nothing has to be agreed and no header travels.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

from workers.schedules.plan import MAX_TRANSFERS

CHUNK_BYTES = 1024 * 1024
"""The most that travels as one message: what is passed on has to be here first, but each message costs some Python."""

PIPELINE = 4
"""Chunks that a shard is cut into however small it is: a rank passes one on while the next comes in."""

LEAST_CHUNK_BYTES = 16 * 1024
"""Unless they would be smaller than that."""

CHAIN_CHUNK_BYTES = 64 * 1024
"""The least a broadcast is cut into: each further rank of the chain waits for one chunk."""

WINDOW = 8
"""Chunks that a reduction has on their way at once. It holds up to twice as many, never more than a shard and one."""


def parts(total: int, count: int) -> tuple[tuple[int, int], ...]:
    """`total` elements as `count` (begin, end) in a row, whose lengths differ by one at most; some may be empty."""
    bounds = [index * total // count for index in range(count + 1)]
    return tuple(itertools.pairwise(bounds))


def chunks_per_shard(shard_bytes: int, ranks: int) -> int:
    """Into how many chunks each shard is cut when the largest has `shard_bytes`: at least 1, fewer than tags allow."""
    wanted = max(-(-shard_bytes // CHUNK_BYTES), min(PIPELINE, shard_bytes // LEAST_CHUNK_BYTES))
    return min(max(1, wanted), MAX_TRANSFERS // (2 * ranks))


def chunks_of_chain(size_bytes: int) -> int:
    """Into how many chunks a broadcast is cut: about 64, of CHAIN_CHUNK_BYTES to CHUNK_BYTES each if that can be."""
    chunk_bytes = min(max(size_bytes // 64, CHAIN_CHUNK_BYTES), CHUNK_BYTES)
    return min(max(1, -(-size_bytes // chunk_bytes)), MAX_TRANSFERS // 2)


@dataclass(frozen=True)
class Transfer:
    """The `number`-th message on every edge of the ring: chunk `chunk` of some shard, in its hop `step`."""

    number: int
    step: int
    chunk: int
    sends: int | None
    """Number of the message that leaves when this one has come; None: no more."""


@dataclass(frozen=True)
class Reduction:
    """The course of a pipelined ring reduction over `ranks`, each shard of `chunks` chunks; the same on every edge.

    Up to WINDOW chunks go round together, hop after hop (`steps` = ranks − 1), then the next ones start. Each message
    that comes in lets one go out: the same chunk to its next hop, or after the last hop a fresh one. With `slots`
    buffers per rank, of which `ahead` are posted, message m needs nothing but messages before it: it cannot deadlock.
    """

    ranks: int
    chunks: int

    @property
    def steps(self) -> int:
        """Hops of each chunk."""
        return self.ranks - 1

    @property
    def ahead(self) -> int:
        """Receives posted ahead; also the chunks that go round together."""
        return max(1, min(WINDOW, self.chunks // 2))

    @property
    def slots(self) -> int:
        """Buffers of one chunk that each rank needs."""
        return 2 * self.ahead

    @cached_property
    def first(self) -> tuple[tuple[int, int], ...]:
        """(number, chunk) of the messages that leave at the start."""
        return tuple((chunk, chunk) for chunk in range(min(self.ahead, self.chunks)))

    @cached_property
    def chunk_of_number(self) -> tuple[tuple[int, int], ...]:
        """(step, chunk) of every message by its number."""
        rounds = [range(begin, min(begin + self.ahead, self.chunks)) for begin in range(0, self.chunks, self.ahead)]
        return tuple((step, chunk) for together in rounds for step in range(self.steps) for chunk in together)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """All messages of an edge in their order."""
        numbers = {which: number for number, which in enumerate(self.chunk_of_number)}

        def sends(step: int, chunk: int) -> int | None:
            return numbers.get((step + 1, chunk) if step + 1 < self.steps else (0, chunk + self.ahead))

        return tuple(
            Transfer(n, step, chunk, sends(step, chunk)) for n, (step, chunk) in enumerate(self.chunk_of_number)
        )
