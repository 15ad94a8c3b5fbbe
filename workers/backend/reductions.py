"""Collectives that add up: reduce_scatter and all_reduce as pipelined rings in the ring's present order.

The partial sum of each shard starts at its owner's successor and collects on its way round; the owner adds the last
part. So one rank determines each element, and all ranks end bit-equal. Bytes per rank: (n−1)/n of the tensor, twice
that for all_reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import torch
from torch.distributed import ReduceOp, Work

from workers.backend.cutting import Reduction, chunks_per_shard, parts
from workers.backend.lane import Lane, all_done, done
from workers.backend.moves import GatherRound, cut

Combine = Callable[..., torch.Tensor]

COMBINE: dict[ReduceOp.RedOpType, Combine] = {
    ReduceOp.SUM: torch.add,
    ReduceOp.AVG: torch.add,
    ReduceOp.PRODUCT: torch.mul,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.MAX: torch.maximum,
    ReduceOp.BAND: torch.bitwise_and,
    ReduceOp.BOR: torch.bitwise_or,
    ReduceOp.BXOR: torch.bitwise_xor,
}
"""Element by element, with `out=`."""


@lru_cache
def check_reducible(op: ReduceOp.RedOpType, dtype: torch.dtype) -> None:
    """ValueError if tensors of that type cannot be reduced so: better before anything moves than halfway."""
    try:
        one = torch.ones(1, dtype=dtype, device="cpu")
        total = COMBINE[op](one, one)
        if op == ReduceOp.AVG:
            average(total, 1)
    except (KeyError, RuntimeError) as error:
        raise ValueError(f"{dtype} cannot be reduced by {op}") from error


def average(total: torch.Tensor, ranks: int) -> None:
    """In place: divide, towards zero for integers."""
    rounding = None if total.is_floating_point() or total.is_complex() else "trunc"
    torch.div(total, ranks, rounding_mode=rounding, out=total)


def all_reduce(lane: Lane, data: torch.Tensor, op: ReduceOp.RedOpType) -> Iterator[None]:
    """Reduce `data` (flat, contiguous) over all ranks in place. Needs one window of chunks besides.

    Blocks until all is done; yields before, when the first chunks leave.
    """
    shards = [data[begin:end] for begin, end in parts(data.numel(), lane.size)]
    count = chunks_per_shard(max(shard.nbytes for shard in shards), lane.size)
    course = _course(lane.size, count)
    pieces = [cut(shard, count) for shard in shards]
    gather = GatherRound(lane, pieces, first_number=len(course.transfers))
    reducing = _reduce(lane, course, op, pieces, partials=pieces, final=pieces[lane.rank], on_final=gather.own_chunk)
    yield next(reducing)
    # A gathered chunk comes only after this rank's own part of it has gone into the sum: posting is safe. Where that
    # is not in this step yet, it is also soon enough, and the first chunks need not wait for so many messages.
    if lane.size > 2:
        next(reducing)
    gather.post()
    yield from reducing
    gather.pass_on()


def reduce_scatter(
    lane: Lane, shards: Sequence[torch.Tensor], output: torch.Tensor, op: ReduceOp.RedOpType
) -> Iterator[None]:
    """`output` becomes the reduction of this rank's shard over all ranks; `shards[r]` is this rank's part of rank r's.

    Flat and contiguous, of any size, the inputs stay as they are; needs one window of chunks besides. Blocks until all
    is done; yields before, when the first chunks leave.
    """
    count = chunks_per_shard(max(shard.nbytes for shard in shards), lane.size)
    pieces = [cut(shard, count) for shard in shards]
    yield from _reduce(lane, _course(lane.size, count), op, pieces, partials=None, final=cut(output, count))


_course = lru_cache(maxsize=64)(Reduction)


def _reduce(
    lane: Lane,
    course: Reduction,
    op: ReduceOp.RedOpType,
    pieces: Sequence[Sequence[torch.Tensor]],
    *,
    partials: Sequence[Sequence[torch.Tensor]] | None,
    final: Sequence[torch.Tensor],
    on_final: Callable[[int, torch.Tensor], None] = lambda chunk, piece: None,
) -> Iterator[None]:
    """`pieces[r][c]` is the own part of chunk c of rank r's shard; what comes in is combined with it.

    The partial results stand in `partials` (which may be the pieces themselves), or stay in the window if that is None;
    the last one goes to `final[c]`, and `on_final` is told c and it. Yields when the first chunks leave, and when the
    first has come.
    """
    combine, transfers = COMBINE[op], course.transfers
    largest = max(piece.numel() for shard in pieces for piece in shard)
    window = torch.empty((course.slots, largest), dtype=final[0].dtype, device=final[0].device)
    in_use: list[Work | None] = [None] * course.slots
    arriving: list[Work | None] = [None] * len(transfers)
    leaving: list[Work | None] = []

    def owner(step: int) -> int:
        """Whose shard a message of that step carries when it reaches this rank."""
        return lane.order[lane.place - 2 - step]

    def slot(number: int) -> torch.Tensor:
        step, chunk = course.chunk_of_number[number]
        return window[number % course.slots, : pieces[owner(step)][chunk].numel()]

    def post(number: int) -> None:
        if number < len(transfers):
            done(in_use[number % course.slots])
            in_use[number % course.slots] = None
            arriving[number] = lane.receive(slot(number), lane.previous, number)

    def start(number: int, chunk: int) -> None:
        leaving.append(lane.send(pieces[lane.order[lane.place - 1]][chunk], lane.next, number))

    for number in range(course.ahead):
        post(number)
    for number, chunk in course.first:
        start(number, chunk)
    yield
    for transfer in transfers:
        number, chunk = transfer.number, transfer.chunk
        whose = owner(transfer.step)
        here, own = slot(number), pieces[whose][chunk]
        done(arriving[number])
        if not number:
            yield
        lane.arrived(whose if transfer.step else lane.previous, here)
        if transfer.step == course.steps - 1:
            combine(here, own, out=final[chunk])
            if op == ReduceOp.AVG:
                average(final[chunk], lane.size)
            on_final(chunk, final[chunk])
            if transfer.sends is not None:
                start(transfer.sends, chunk + course.ahead)
        else:
            partial = here if partials is None else partials[whose][chunk]
            combine(here, own, out=partial)
            work = lane.send(partial, lane.next, transfer.sends)
            if partials is None:
                in_use[number % course.slots] = work
            else:
                leaving.append(work)
        post(number + course.ahead)
    all_done(leaving)
    all_done(in_use)
