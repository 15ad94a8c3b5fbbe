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

from workers.group import set_order

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


def types(ranks: int) -> tuple[torch.dtype, ...]:
    """All types for two and for four ranks, some where that is only another number of ranks."""
    return DTYPES if ranks in (2, 4) else (torch.float32, torch.bfloat16, torch.int64)


def reductions(ranks: int) -> Iterator[tuple[torch.dtype, int, ReduceOp]]:
    """What can be reduced: an average of booleans is none."""
    for dtype, size, op in itertools.product(types(ranks), SIZES, OPS):
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
        for case in itertools.product(types(both.size), SIZES):
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


def test_work_is_done_in_the_background_and_its_future_holds_the_result():
    def main() -> None:
        both = Both()
        n = both.size
        works, told = [], []
        tensors = [torch.full((size,), both.rank + 1.0) for size in (3, 200_000, 5, 300_000)]
        for tensor in tensors:
            work = dist.all_reduce(tensor, async_op=True)
            told.append(work.get_future().then(lambda future: future.value()[0][0].item()))
            works.append(work)
        gathered = torch.empty(n * 50_000)
        gathering = dist.all_gather_single(gathered, torch.full((50_000,), float(both.rank)), async_op=True)
        meeting = dist.barrier(async_op=True)
        for work in (meeting, gathering, *reversed(works)):
            assert work.wait()
            assert work.is_completed()
        expected = n * (n + 1) / 2
        assert all(torch.equal(tensor, torch.full_like(tensor, expected)) for tensor in tensors)
        assert torch.equal(gathered, torch.arange(float(n)).repeat_interleave(50_000))
        assert [future.wait() for future in told] == [expected] * 4
        assert works[1].get_future().wait()[0] is tensors[1]

    run_ranks(3, main)


def test_what_follows_a_collective_may_be_collectives():
    """As PowerSGD's hook does it: a callback that waits for what the same thread would have to run."""

    def main() -> None:
        tensor = torch.ones(100_000)

        def again(future: torch.futures.Future) -> torch.Tensor:
            (got,) = future.value()
            dist.all_reduce(got)
            return dist.all_reduce(got, async_op=True).get_future().wait()[0]

        chained = dist.all_reduce(tensor, async_op=True).get_future().then(again).wait()
        assert (chained == 3**3).all()

    run_ranks(3, main)


def test_several_collectives_can_be_coalesced():
    def main() -> None:
        n = dist.get_world_size()
        tensors = [torch.full((size,), 1.0) for size in (3, 100_000)]
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        assert all((tensor == n).all() for tensor in tensors)
        outputs = [torch.empty(n * size) for size in (3, 100_000)]
        with dist._coalescing_manager(async_ops=True) as manager:
            for output, tensor in zip(outputs, tensors, strict=True):
                dist.all_gather_single(output, tensor)
        manager.wait()
        assert all((output == n).all() for output in outputs)

    run_ranks(3, main)


def test_functional_collectives_find_the_group_by_its_name():
    import torch.distributed._functional_collectives as functional

    def main() -> None:
        rank, n = dist.get_rank(), dist.get_world_size()
        everybody = dist.group.WORLD
        for size in (6, 60_000):
            mine = torch.arange(size, dtype=torch.int64) + rank
            total = torch.arange(size, dtype=torch.int64) * n + sum(range(n))
            assert torch.equal(functional.all_reduce(mine, "sum", everybody), total)
            gathered = functional.all_gather_tensor(mine, 0, everybody)
            assert torch.equal(gathered.view(n, -1), torch.arange(size) + torch.arange(n)[:, None])
            shard = functional.reduce_scatter_tensor(mine, "sum", 0, everybody)
            assert torch.equal(shard, total.chunk(n)[rank])
            exchanged = functional.all_to_all_single(mine, None, None, everybody)
            assert torch.equal(exchanged.view(n, -1)[rank], mine.chunk(n)[rank])
            assert torch.equal(functional.broadcast(mine, 1, everybody), torch.arange(size) + 1)

    run_ranks(3, main)


def test_sub_groups_and_meshes_work_side_by_side():
    def main() -> None:
        rank = dist.get_rank()
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        for size in (5, 100_000):
            mine = torch.full((size,), float(rank))
            dist.all_reduce(mine, group=groups[rank % 2])
            assert (mine == (2.0 if rank % 2 == 0 else 4.0)).all()
        mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
        for name, total in (("column", rank // 2 * 4 + 1.0), ("row", rank % 2 * 2 + 2.0)):
            mine = torch.full((100_000,), float(rank))
            dist.all_reduce(mine, group=mesh[name].get_group())
            assert (mine == total).all(), (name, mine[0])

    run_ranks(4, main)


def test_objects_travel():
    def main() -> None:
        rank, n = dist.get_rank(), dist.get_world_size()
        mine = {"rank": rank, "text": "å" * (rank * 40_000)}
        everyones: list[object] = [None] * n
        dist.all_gather_object(everyones, mine)
        assert [o["rank"] for o in everyones] == list(range(n)) and everyones[rank] == mine
        sent = [mine if rank == 1 else None]
        dist.broadcast_object_list(sent, 1)
        assert sent[0] == everyones[1]
        gathered = [None] * n if rank == 2 else None
        dist.gather_object(mine, gathered, 2)
        assert gathered is None or gathered == everyones
        got: list[object] = [None]
        dist.scatter_object_list(got, everyones if rank == 0 else None, 0)
        assert got[0] == mine

    run_ranks(3, main)


def test_messages_of_the_script_never_meet_those_of_collectives():
    def main() -> None:
        rank, n = dist.get_rank(), dist.get_world_size()
        for tag in range(6):
            got, reduced = torch.empty(1000), torch.full((1000,), 1.0)
            receiving = dist.irecv(got, (rank - 1) % n, tag=tag)
            dist.all_reduce(reduced)
            dist.send(torch.full((1000,), float(rank * 10 + tag)), (rank + 1) % n, tag=tag)
            receiving.wait()
            assert (got == (rank - 1) % n * 10 + tag).all() and (reduced == n).all()
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % n),
                dist.P2POp(dist.irecv, batch := torch.empty(3), (rank - 1) % n),
            ]
        )
        for work in works:
            work.wait()
        assert (batch == (rank - 1) % n).all()
        if rank == 0:
            anybodys = torch.empty(1)
            assert {dist.recv(anybodys) for _ in range(n - 1)} == set(range(1, n))
        else:
            dist.send(torch.ones(1), 0)
        with pytest.raises(ValueError, match="tag"):
            dist.isend(torch.ones(1), (rank + 1) % n, tag=2**30)

    run_ranks(3, main)


def test_what_cannot_be_reduced_is_refused_before_anything_moves():
    def main() -> None:
        for size in (3, 100_000):
            with pytest.raises(ValueError, match="bool"):
                dist.all_reduce(torch.ones(size, dtype=torch.bool), ReduceOp.AVG)
            with pytest.raises(ValueError, match="complex"):
                dist.all_reduce(torch.ones(size, dtype=torch.complex64), ReduceOp.MAX)
            with pytest.raises(ValueError, match="dtype"):
                dist.all_gather([torch.ones(size)] * 2, torch.ones(size, dtype=torch.int32))
            still = torch.ones(size)
            dist.all_reduce(still)
            assert (still == 2).all()

    run_ranks(2, main)


def test_results_are_the_same_in_every_order_of_the_ring():
    def main() -> None:
        both = Both()
        n = both.size
        for epoch, order in enumerate(itertools.permutations(range(n))):
            assert set_order(None, order).epoch == epoch
            mine = both.tensor(50_000, torch.int32)
            reduced, shard, sent = mine.clone(), torch.empty(12_500, dtype=torch.int32), mine.clone()
            dist.all_reduce(reduced)
            dist.reduce_scatter_single(shard, mine)
            dist.broadcast(sent, 2)
            outputs = [torch.empty_like(mine) for _ in range(n)]
            dist.all_gather(outputs, mine)
            expected = both.reduced(mine, ReduceOp.SUM)
            assert torch.equal(reduced, expected)
            assert torch.equal(shard, expected.chunk(n)[both.rank])
            assert torch.equal(sent, outputs[2])
            assert torch.equal(outputs[both.rank], mine)

    run_ranks(4, main)
