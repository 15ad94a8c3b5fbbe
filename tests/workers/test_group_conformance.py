"""Every collective of the `ring` backend beside stock gloo's, element by element.

Integers must be equal, floats within the rounding of another order of additions, and all ranks bit-equal. The cases of
one number of ranks run inside one process group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from torch.distributed import ReduceOp

FLOATS = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Floating point types and the relative rounding that seven additions can leave."""

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
OPS = (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.PRODUCT)

SIZES = (0, 1, 7, 30_011)
"""Nothing, one, odd and small, odd and bulk (by ring)."""

RANKS = (2, 3, 4, 5, 6, 7, 8)


class Both:
    """A rank's `ring` group, its twin over stock gloo, and tensors for them."""

    def __init__(self) -> None:
        self.ring = dist.group.WORLD
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.gloo = dist.new_group(list(range(self.size)), backend="gloo")
        self._numbers = torch.Generator().manual_seed(self.rank)

    def tensor(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        """Of this rank alone: near 1 for floats, anything for integers."""
        if dtype in FLOATS:
            return (torch.rand(size, generator=self._numbers) + 0.5).to(dtype)
        return torch.randint(0, 256, (size,), generator=self._numbers).to(dtype)

    def equal_everywhere(self, tensor: torch.Tensor) -> bool:
        """Whether every rank holds the same bits."""
        mine = tensor.contiguous().view(-1).view(torch.uint8)
        everyones = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(everyones, mine, group=self.gloo)
        return all(torch.equal(mine, theirs) for theirs in everyones)

    def reduced(self, tensor: torch.Tensor, op: ReduceOp) -> torch.Tensor:
        """What stock gloo makes of it; for what it refuses, the same in a type or in steps that it knows."""
        dtype = tensor.dtype
        known = tensor.to(torch.int64) if dtype == torch.int16 else tensor.clone()
        averages_integers = op == ReduceOp.AVG and dtype not in FLOATS
        dist.all_reduce(known, ReduceOp.SUM if averages_integers else op, group=self.gloo)
        if dtype == torch.bool:
            return known.view(torch.uint8) != 0  # gloo adds the bytes: True + True is stored as 2
        if averages_integers:
            known = torch.div(known.to(dtype), self.size, rounding_mode="trunc")
        return known.to(dtype)


def assert_same(got: torch.Tensor, expected: torch.Tensor, case: object) -> None:
    """Equal for what is exact, within rounding for floats."""
    assert got.dtype == expected.dtype and got.shape == expected.shape, case
    if got.dtype in FLOATS:
        torch.testing.assert_close(got, expected, rtol=FLOATS[got.dtype], atol=0, msg=lambda text: f"{case}: {text}")
    else:
        assert torch.equal(got, expected), f"{case}: {got.flatten()[:8]} instead of {expected.flatten()[:8]}"


def cases(ranks: int) -> list[tuple[torch.dtype, int]]:
    """All types at all sizes for two and for four ranks; else all types in bulk, and one type at the other sizes."""
    if ranks in (2, 4):
        return list(itertools.product(DTYPES, SIZES))
    return [*((dtype, SIZES[-1]) for dtype in DTYPES), *((torch.float32, size) for size in SIZES[:-1])]


def reductions(ranks: int) -> Iterator[tuple[torch.dtype, int, ReduceOp]]:
    """What can be reduced: an average of booleans is none."""
    for (dtype, size), op in itertools.product(cases(ranks), OPS):
        if not (dtype == torch.bool and op == ReduceOp.AVG):
            yield dtype, size, op


@pytest.mark.parametrize("ranks", RANKS)
def test_all_reduce_is_what_gloo_computes_and_bit_equal_on_all_ranks(ranks: int):
    def main() -> None:
        both = Both()
        for case in reductions(both.size):
            dtype, size, op = case
            mine = both.tensor(size, dtype)
            got = mine.clone()
            dist.all_reduce(got, op)
            assert_same(got, both.reduced(mine, op), case)
            assert both.equal_everywhere(got), case

    run_ranks(ranks, main)


@pytest.mark.parametrize("ranks", RANKS)
def test_reduce_scatter_is_what_gloo_computes_whole_or_as_a_list(ranks: int):
    def main() -> None:
        both = Both()
        for case in reductions(both.size):
            dtype, size, op = case
            mine = both.tensor(size * both.size, dtype)
            before = mine.clone()
            expected = both.reduced(mine, op).chunk(both.size)[both.rank] if size else mine[:0]
            whole, listed = torch.empty(size, dtype=dtype), torch.empty(size, dtype=dtype)
            dist.reduce_scatter_single(whole, mine, op)
            dist.reduce_scatter(listed, list(mine.view(both.size, size).unbind(0)), op)
            assert_same(whole, expected, case)
            assert_same(listed, expected, case)
            assert torch.equal(mine, before), f"{case}: the input has changed"

    run_ranks(ranks, main)


@pytest.mark.parametrize("ranks", RANKS)
def test_gathering_and_moving_give_gloos_bits(ranks: int):
    def main() -> None:
        both = Both()
        for case in cases(both.size):
            dtype, size = case
            mine, n = both.tensor(size, dtype), both.size
            for collective in (_listed_gather, _whole_gather, _broadcast, _gather, _scatter, _exchange, _send_around):
                if collective is _scatter and not size:
                    continue
                got = collective(mine, both.ring, both.rank, n)
                known = mine.view(torch.float16) if dtype == torch.int16 else mine  # gloo moves no int16
                expected = collective(known, both.gloo, both.rank, n).view(dtype)
                assert_same(got, expected, (collective.__name__, *case))

    run_ranks(ranks, main)


def _listed_gather(mine: torch.Tensor, group: dist.ProcessGroup, rank: int, n: int) -> torch.Tensor:
    outputs = [torch.empty_like(mine) for _ in range(n)]
    dist.all_gather(outputs, mine, group=group)
    return torch.stack(outputs)


def _whole_gather(mine: torch.Tensor, group: dist.ProcessGroup, rank: int, n: int) -> torch.Tensor:
    output = mine.new_empty(n * mine.numel())
    dist.all_gather_single(output, mine, group=group)
    return output


def _broadcast(mine: torch.Tensor, group: dist.ProcessGroup, rank: int, n: int) -> torch.Tensor:
    got = [mine.clone() for _ in range(2)]
    for root, tensor in zip((0, n - 1), got, strict=True):
        dist.broadcast(tensor, root, group=group)
    return torch.stack(got)


def _gather(mine: torch.Tensor, group: dist.ProcessGroup, rank: int, n: int) -> torch.Tensor:
    outputs = [torch.empty_like(mine) for _ in range(n)] if rank == 1 else None
    dist.gather(mine, outputs, dst=1, group=group)
    return torch.stack(outputs) if outputs else mine


def _scatter(mine: torch.Tensor, group: dist.ProcessGroup, rank: int, n: int) -> torch.Tensor:
    output = torch.empty_like(mine)
    dist.scatter(output, [mine.roll(shift) for shift in range(n)] if rank == 1 else None, src=1, group=group)
    return output


def _exchange(mine: torch.Tensor, group: dist.ProcessGroup, rank: int, n: int) -> torch.Tensor:
    whole, output = mine.repeat(n), mine.new_empty(n * mine.numel())
    dist.all_to_all_single(output, whole, group=group)
    outputs = [torch.empty_like(mine) for _ in range(n)]
    dist.all_to_all(outputs, list(whole.view(n, -1).unbind(0)) if mine.numel() else outputs, group=group)
    return torch.cat([output, *outputs])


def _send_around(mine: torch.Tensor, group: dist.ProcessGroup, rank: int, n: int) -> torch.Tensor:
    got = torch.empty_like(mine)
    sending = dist.isend(mine, (rank + 1) % n, group=group, tag=3)
    dist.recv(got, (rank - 1) % n, group=group, tag=3)
    sending.wait()
    return got


@pytest.mark.parametrize("ranks", (3, 4))
def test_shapes_may_be_uneven_where_torch_allows_it(ranks: int):
    """Lists of uneven shards, which stock gloo gathers only padded; splits of any size, none among them."""

    def main() -> None:
        both = Both()
        n, rank = both.size, both.rank
        for unit, dtype in itertools.product((1, 20_001), (torch.float32, torch.int64)):
            sizes = [unit * ((r + 2) % n) for r in range(n)]  # one of them is empty
            mine = both.tensor(sizes[rank], dtype)
            outputs = [torch.empty(size, dtype=dtype) for size in sizes]
            dist.all_gather(outputs, mine)
            padded = torch.zeros(max(sizes), dtype=dtype)
            padded[: sizes[rank]] = mine
            theirs = [torch.empty_like(padded) for _ in range(n)]
            dist.all_gather(theirs, padded, group=both.gloo)
            for output, expected, size in zip(outputs, theirs, sizes, strict=True):
                assert torch.equal(output, expected[:size])

            parts = [both.tensor(size, dtype) for size in sizes]
            got, expected = torch.empty(sizes[rank], dtype=dtype), torch.empty(sizes[rank], dtype=dtype)
            dist.reduce_scatter(got, parts)
            whole = both.reduced(torch.cat(parts), ReduceOp.SUM)
            expected = whole.split(sizes)[rank]
            assert_same(got, expected, ("reduce_scatter", sizes))

            splits = [[unit * ((a + 2 * b) % n) for b in range(n)] for a in range(n)]  # from a to b
            leaving, arriving = splits[rank], [row[rank] for row in splits]
            given = both.tensor(sum(leaving), dtype)
            results = []
            for group in (both.ring, both.gloo):
                single = torch.empty(sum(arriving), dtype=dtype)
                dist.all_to_all_single(single, given, arriving, leaving, group=group)
                results.append(single)
            listed = [torch.empty(size, dtype=dtype) for size in arriving]
            dist.all_to_all(listed, list(given.split(leaving)))  # stock gloo's lists have to be even
            results.append(torch.cat(listed))
            assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])

    run_ranks(ranks, main)


def test_tensors_need_not_be_contiguous():
    def main() -> None:
        both = Both()
        n = both.size
        for rows in (6, 6 * 2_000):
            wide = both.tensor(rows * 10, torch.float32).view(rows, 10)
            for view in (wide.t(), wide[:, ::2], wide[::3].t()):
                dense = view.contiguous()
                reduced = wide.clone().as_strided(view.shape, view.stride())
                dist.all_reduce(reduced)
                assert_same(reduced, both.reduced(dense, ReduceOp.SUM), "all_reduce")

                outputs = [torch.zeros_like(wide).as_strided(view.shape, view.stride()) for _ in range(n)]
                dist.all_gather(outputs, view)
                expected = [torch.empty_like(dense) for _ in range(n)]
                dist.all_gather(expected, dense, group=both.gloo)
                assert all(torch.equal(*pair) for pair in zip(outputs, expected, strict=True))

                sent = wide.clone().as_strided(view.shape, view.stride())
                dist.broadcast(sent, 1)
                assert torch.equal(sent, expected[1])

                whole = torch.empty(n * rows * 10, dtype=torch.float32)[: n * dense.numel()].view(n, *dense.shape)
                dist.all_gather_single(whole, view)
                assert torch.equal(whole, torch.stack(expected))

                shard = torch.zeros_like(wide).as_strided(view.shape, view.stride())
                dist.reduce_scatter(shard, [view + r for r in range(n)])
                assert_same(shard, both.reduced(dense, ReduceOp.SUM) + n * both.rank, "reduce_scatter")

                exchanged = [torch.zeros_like(wide).as_strided(view.shape, view.stride()) for _ in range(n)]
                dist.all_to_all(exchanged, [view] * n)
                assert all(torch.equal(*pair) for pair in zip(exchanged, expected, strict=True))

    run_ranks(3, main)


def test_64_mib_arrive_whole():
    def main() -> None:
        both = Both()
        n, elements = both.size, 16 * 2**20
        place = torch.arange(elements, dtype=torch.int32)
        reduced = place + both.rank
        dist.all_reduce(reduced)
        assert torch.equal(reduced, place * n + sum(range(n)))
        shard = torch.empty(elements // n, dtype=torch.int32)
        dist.reduce_scatter_single(shard, place + both.rank)
        assert torch.equal(shard, reduced.chunk(n)[both.rank])
        gathered = torch.empty_like(place)
        dist.all_gather_single(gathered, shard)
        assert torch.equal(gathered, reduced)
        sent = place if both.rank == 1 else torch.empty_like(place)
        dist.broadcast(sent, 1)
        assert torch.equal(sent, place)
        exchanged = torch.empty_like(place)
        dist.all_to_all_single(exchanged, place)
        assert torch.equal(exchanged, place.chunk(n)[both.rank].repeat(n))

    run_ranks(4, main)
