"""Small collectives of every kind and size in any mixture: each message finds the collective that it belongs to."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

FLIGHTS, AT_ONCE = 12, 12
SIZES = (1, 3, 1000, 4096, 5000, 16_000, 40_000)
"""Elements of 4 bytes: below, at and above what a letter takes; the last is no small collective any more."""

Begun = tuple[dist.Work, Callable[[], bool]]


def _all_reduce(size: int, root: int, rank: int, n: int) -> Begun:
    mine = torch.full((size,), rank + root, dtype=torch.int32)
    return dist.all_reduce(mine, async_op=True), lambda: bool((mine == n * (n - 1) // 2 + n * root).all())


def _reduce(size: int, root: int, rank: int, n: int) -> Begun:
    mine = torch.full((size,), rank, dtype=torch.int32)
    total = n * (n - 1) // 2 if rank == root else rank
    return dist.reduce(mine, root, async_op=True), lambda: bool((mine == total).all())


def _all_gather(size: int, root: int, rank: int, n: int) -> Begun:
    got = torch.empty(n * size, dtype=torch.int32)
    work = dist.all_gather_single(got, torch.full((size,), rank * 10 + root, dtype=torch.int32), async_op=True)
    return work, lambda: torch.equal(got.view(n, size)[:, 0], torch.arange(n, dtype=torch.int32) * 10 + root)


def _all_to_all(size: int, root: int, rank: int, n: int) -> Begun:
    """What goes from rank a to rank b has size + a + b elements, each 100 a + b."""
    counts = [size + rank + other for other in range(n)]
    given = torch.cat([torch.full((count,), 100 * rank + to) for to, count in enumerate(counts)])
    got = torch.empty(sum(counts), dtype=given.dtype)
    expected = torch.cat([torch.full((count,), 100 * source + rank) for source, count in enumerate(counts)])
    return dist.all_to_all_single(got, given, counts, counts, async_op=True), lambda: torch.equal(got, expected)


def _broadcast(size: int, root: int, rank: int, n: int) -> Begun:
    data = torch.full((size,), rank)
    return dist.broadcast(data, root, async_op=True), lambda: bool((data == root).all())


def _gather(size: int, root: int, rank: int, n: int) -> Begun:
    shards = [torch.empty(size) for _ in range(n)] if rank == root else None
    work = dist.gather(torch.full((size,), float(rank)), shards, root, async_op=True)
    return work, lambda: all(bool((shard == source).all()) for source, shard in enumerate(shards or ()))


def _scatter(size: int, root: int, rank: int, n: int) -> Begun:
    got = torch.empty(size)
    shards = [torch.full((size,), float(to + root)) for to in range(n)] if rank == root else None
    return dist.scatter(got, shards, root, async_op=True), lambda: bool((got == rank + root).all())


def _barrier(size: int, root: int, rank: int, n: int) -> Begun:
    return dist.barrier(async_op=True), lambda: True


KINDS = (_all_reduce, _reduce, _all_gather, _all_to_all, _broadcast, _gather, _scatter, _barrier)


@pytest.mark.parametrize("ranks", [2, 4, 5])
def test_many_at_once_do_not_mix(ranks: int):
    def main() -> None:
        rank, n = dist.get_rank(), dist.get_world_size()
        everybodys, own = random.Random(7), random.Random(rank)
        for _ in range(FLIGHTS):
            drawn = [
                (everybodys.choice(KINDS), everybodys.choice(SIZES), everybodys.randrange(n)) for _ in range(AT_ONCE)
            ]
            begun = [(kind, size, kind(size, root, rank, n)) for kind, size, root in drawn]
            own.shuffle(begun)
            for kind, size, (work, is_right) in begun:
                work.wait()
                assert is_right(), (kind.__name__, size)

    run_ranks(ranks, main)


def test_a_root_is_a_rank_and_lists_a_tensor_for_each():
    def main() -> None:
        group, n = dist.group.WORLD, dist.get_world_size()
        one = torch.ones(3)
        options = dist.GatherOptions()
        for root, outputs in ((n, []), (dist.get_rank(), [[one]]), (dist.get_rank(), [[torch.ones(2)] * n])):
            options.rootRank = root
            with pytest.raises(ValueError, match=r"root|size"):
                group.gather(outputs, [one], options)
        dist.barrier()

    run_ranks(2, main)
