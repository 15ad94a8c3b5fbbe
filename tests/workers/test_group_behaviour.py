"""What the `ring` backend does beyond single collectives: background work, sub-groups, meshes, objects, orders."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from test_group_conformance import Both
from torch.distributed import ReduceOp
from waiting import eventually

from workers.backend.waiting import _Threads
from workers.group import set_order


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
        for tag in (*range(6), 2**31 - 2):
            got, reduced = torch.empty(1000), torch.full((1000,), 1.0)
            receiving = dist.irecv(got, (rank - 1) % n, tag=tag)
            dist.all_reduce(reduced)
            dist.send(torch.full((1000,), float(rank * 10 + tag % 8)), (rank + 1) % n, tag=tag)
            receiving.wait()
            assert (got == (rank - 1) % n * 10 + tag % 8).all() and (reduced == n).all()
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


@pytest.mark.parametrize("size", [4, 100_000])
def test_collectives_work_in_inference_mode(size):
    def main() -> None:
        with torch.inference_mode():
            n, rank = dist.get_world_size(), dist.get_rank()
            mine = torch.ones(size)
            dist.all_reduce(mine)
            assert (mine == n).all()
            got = torch.empty(n * size)
            dist.all_gather_single(got, torch.full((size,), float(rank)))
            assert torch.equal(got.view(n, size)[:, 0], torch.arange(float(n)))
            part = torch.empty(size)
            dist.reduce_scatter_single(part, torch.ones(n * size))
            assert (part == n).all()
            given = torch.full((size,), float(rank))
            dist.broadcast(given, 1)
            assert (given == 1).all()
            dist.barrier()

    run_ranks(5, main)


def test_small_equal_parts_go_the_same_way_whatever_their_strides():
    def main() -> None:
        n, rank = dist.get_world_size(), dist.get_rank()
        given = torch.arange(n * n, dtype=torch.float32).view(n, n) + 100 * rank
        got = torch.empty(n, n)
        if rank == 0:
            given, got = given.t().contiguous().t(), got.t()
        dist.all_to_all_single(got, given)
        expected = torch.stack([torch.arange(n * rank, n * rank + n) + 100.0 * source for source in range(n)])
        assert torch.equal(got, expected)

    run_ranks(3, main)


def test_a_small_message_of_another_size_is_refused_by_name():
    def main() -> None:
        data = torch.ones(100 if dist.get_rank() == 0 else 50)
        if dist.get_rank() == 0:
            dist.broadcast(data, 0)
        else:
            with pytest.raises(RuntimeError, match="rank 0 has sent another size than the 200 bytes expected here"):
                dist.broadcast(data, 0)

    run_ranks(2, main)


def test_what_waits_after_the_end_of_the_group_is_still_waited_for():
    """An exit handler that runs after the group's own may have a last collective."""
    # given a thread that waits for its next task, and then the end
    threads = _Threads()
    threads.start(lambda: None)
    eventually(lambda: threads._idle)
    threads.dismiss()
    # when there is one more task
    done = threading.Event()
    threads.start(done.set)
    # then
    assert done.wait(10)


def test_coalesced_gathers_go_on_while_somebody_waits_for_something_else():
    def main() -> None:
        rank, n = dist.get_rank(), dist.get_world_size()
        outputs, inputs = [torch.empty(n), torch.empty(n * 2)], [torch.full((1,), float(rank)), torch.full((2,), 9.0)]
        work = dist.group.WORLD.all_gather_single_coalesced(outputs, inputs)
        token = torch.ones(1)
        if rank:
            dist.recv(token, rank - 1)
        work.wait()
        if rank + 1 < n:
            dist.send(token, rank + 1)
        assert outputs[0].tolist() == list(range(n)) and (outputs[1] == 9).all()

    run_ranks(5, main)


@pytest.mark.parametrize("size", [10, 100_000])
def test_where_a_script_makes_its_tensors_is_no_matter(size: int):
    def main() -> None:
        mine, scattered, n = torch.ones(size), torch.empty(size), dist.get_world_size()
        given = [torch.ones(size) for _ in range(n)]
        with torch.device("meta"):
            dist.all_reduce(mine)
            dist.reduce_scatter(scattered, given)
        assert (mine == n).all() and (scattered == n).all()

    run_ranks(3, main)


@pytest.mark.parametrize("size", [10, 200_000])
def test_an_input_may_lie_where_anothers_output_will(size: int):
    def main() -> None:
        rank, n = dist.get_rank(), dist.get_world_size()
        outputs = [torch.full((size,), float(rank)) for _ in range(n)]
        dist.all_gather(outputs, outputs[(rank + 1) % n])
        assert [output.unique().tolist() for output in outputs] == [[float(other)] for other in range(n)]

    run_ranks(3, main)


def test_lists_that_do_not_fit_are_refused_before_anything_moves():
    def main() -> None:
        rank, n = dist.get_rank(), dist.get_world_size()
        one, two = torch.ones(1), torch.ones(2)
        with pytest.raises(ValueError, match="one tensor is needed for each rank"):
            dist.group.WORLD.alltoall([one] * (n - 1), [one] * (n - 1))
        with pytest.raises(ValueError, match="as large as that from it"):
            dist.group.WORLD.alltoall([two if r == rank else one for r in range(n)], [one] * n)
        got = [torch.empty(1) for _ in range(n)]
        dist.all_to_all(got, [torch.full((1,), float(rank))] * n)
        assert [each.item() for each in got] == list(range(n))

    run_ranks(2, main)
