"""The `ProcessGroup` that `init_process_group("ring")` gives: which way each collective goes.

Bulk collectives go round the ring, in the order that the engine keeps; small ones by dissemination; all_to_all between
all pairs at once, gather and scatter straight; what neither serves is stock gloo's: point-to-point and what is sparse.
All but the first have connections of their own, so that bulk never blocks them. All ranks choose the same way, from
what all know.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    BroadcastOptions,
    ReduceOptions,
    ReduceScatterOptions,
    Work,
)
from torch.distributed import PrefixStore, ProcessGroupGloo

from topologies.errors import InputError
from workers.agent import Ring
from workers.backend import moves, reductions
from workers.backend.automatic import from_environment
from workers.backend.cutting import parts
from workers.backend.deathwatch import DeathWatch, own_name
from workers.backend.ending import Ending
from workers.backend.engine import Engine
from workers.backend.lane import Lane
from workers.backend.letters import Letters
from workers.backend.meeting import meet
from workers.backend.reductions import COMBINE, check_reducible
from workers.backend.small import Dissemination
from workers.backend.streams import Streams
from workers.backend.ways import Rest
from workers.backend.work import LazyWork, StockWork, Together, raise_explained
from workers.backend.written import Written, check_same_type, finish_all, flat, given, overlap, split

SMALL_BYTES = 64 * 1024
"""A collective for which a rank would have to send no more than that in all is spread by dissemination."""

Tensors = Sequence[torch.Tensor]

_KINDS = ("watch", "letters", "streams")
"""The connections between every two ranks, beside gloo's."""

Method = TypeVar("Method", bound=Callable[..., Any])


def _explained(method: Method) -> Method:
    """Of a collective that cannot begin, because connections are closed already, the error is explained."""

    @wraps(method)
    def begin(group: RingProcessGroup, *arguments: Any, **named: Any) -> Any:
        try:
            return method(group, *arguments, **named)
        except RuntimeError as error:
            raise_explained(error, group._explain)

    return cast(Method, begin)


class RingProcessGroup(dist.ProcessGroup):
    """Two inner gloo groups, `data` for what goes round the ring, `control` for what is stock gloo's; the rest is ours.

    An operation that is not overridden here is stock gloo's, through the backend that the base class holds.
    """

    def __init__(self, options: Any) -> None:
        rank, size = options.group_rank, options.group_size
        super().__init__(rank, size)
        self._size = size
        self._control = ProcessGroupGloo(PrefixStore("control", options.store), rank, size, options.timeout)
        self._data = ProcessGroupGloo(PrefixStore("data", options.store), rank, size, options.timeout)
        self._control._set_sequence_number_for_group()
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, self._control)
        self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        ranks = list(options.global_ranks_in_group) or list(range(size))
        self._engine = Engine(self._data, *from_environment(self._data, options.group_id, ranks))
        self._waiting = self._engine.waiting
        own = own_name(ranks[rank])
        meeting = meet(PrefixStore("meeting", options.store), rank, size, own, len(_KINDS), options.timeout)
        watched, letters, streams = meeting.peers
        self._small = Dissemination(rank, size, Letters(letters, options.timeout), Streams(streams, options.timeout))
        self._ending = ending = Ending(self._engine, self._small, self._control, self._data)
        watch = DeathWatch(watched, meeting.names, ranks, ending.break_off, ending.give_up)
        ending.watched_by(watch)
        weakref.finalize(self, watch.close).atexit = False  # all of it ends then
        self._explain = self._engine.explain = watch.explained

    @property
    def ring(self) -> Ring:
        """The order of the next bulk collective, in ranks of this group, once all that is queued has run."""
        return self._engine.ring

    def set_order(self, order: Sequence[int]) -> None:
        """See `workers.group.set_order`."""
        if sorted(order) != list(range(self.size())):
            raise InputError("not every rank of the group once", place="ring order", value=list(order))
        self._engine.set_order(order).wait()

    def getBackendName(self) -> str:
        """What `dist.get_backend` calls it."""
        return "ring"

    # Gathering.

    @_explained
    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work | None:
        """`dist.all_gather`: shards of any sizes, as long as every rank lists the same."""
        ((*shards,), (own,)) = outputs[0], inputs
        check_same_type(own, *shards)
        if shards[self.rank()].numel() != own.numel():
            raise ValueError("the output of this rank must be as large as its input")
        even = all(shard.numel() == own.numel() for shard in shards)
        if even and self._is_small(own.nbytes * (self.size() - 1)):

            def store(rows: torch.Tensor) -> None:
                for shard, row in zip(shards, rows.unbind(0), strict=True):
                    shard.detach().copy_(row.view_as(shard))

            return self._begun(self._small.all_gather(own, store), shards, opts)
        written = [Written(shard) for shard in shards]
        return self._ring_gather([shard.bytes for shard in written], written, own, shards)

    @_explained
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        """`dist.all_gather_into_tensor`."""
        check_same_type(output, input)
        if output.numel() != input.numel() * self.size():
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        if self._is_small(input.nbytes * (self.size() - 1)):

            def store(rows: torch.Tensor) -> None:
                output.detach().copy_(rows.view_as(output))

            return self._begun(self._small.all_gather(input, store), [output], opts)
        whole = Written(output)
        shards = [whole.bytes[begin:end] for begin, end in parts(output.nbytes, self.size())]
        return self._ring_gather(shards, [whole], input, [output])

    _allgather_base = all_gather_single

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """`outputs[i]` are the shards of the i-th tensor."""
        pairs, each = zip(outputs, inputs, strict=True), AllgatherOptions()
        return _together([self.allgather([shards], [own], each) for shards, own in pairs])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """What functional collectives call."""
        each = AllgatherOptions()
        return _together([self.all_gather_single(o, i, each) for o, i in zip(outputs, inputs, strict=True)])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _ring_gather(
        self, shards: list[torch.Tensor], written: list[Written], own: torch.Tensor, result: list[torch.Tensor]
    ) -> Work:
        mine = flat(own).view(torch.uint8)
        if any(overlap(mine, shard) for rank, shard in enumerate(shards) if rank != self.rank()):
            mine = mine.clone()  # else it would be overwritten while it leaves

        def collective(lane: Lane) -> Iterator[None]:
            yield from moves.all_gather(lane, shards, mine)
            finish_all(written)

        return self._engine.collective(collective, result, "all_gather", own.nbytes)

    # Reducing.

    @_explained
    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work | None:
        """`dist.all_reduce`."""
        opts = opts or AllreduceOptions()
        (tensor,), op = tensors, opts.reduceOp.op
        if op not in COMBINE or tensor.layout != torch.strided:
            return self._stock(self._control.allreduce(tensors, opts))
        check_reducible(op, tensor.dtype)
        if self._is_small(tensor.nbytes * (self.size() - 1)):
            return self._begun(self._small.all_reduce(tensor, op), [tensor], opts)
        written = Written(tensor, keep=True)

        def collective(lane: Lane) -> Iterator[None]:
            yield from reductions.all_reduce(lane, written.elements, op)
            written.finish()

        return self._engine.collective(collective, [tensor], "all_reduce", tensor.nbytes)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """Each of them, all at once."""
        each = AllreduceOptions()
        if opts is not None:
            each.reduceOp = opts.reduceOp
        return _together([self.allreduce([tensor], each) for tensor in tensors])

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work | None:
        """`dist.reduce_scatter`: shards of any sizes, as long as every rank lists the same."""
        return self._reduce_scatter(outputs[0], [flat(tensor) for tensor in inputs[0]], opts)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        """`dist.reduce_scatter_tensor`."""
        if output.numel() * self.size() != input.numel():
            raise ValueError("input tensor must be the same size as output size times world size")
        whole = flat(input)
        shards = [whole[begin:end] for begin, end in parts(whole.numel(), self.size())]
        return self._reduce_scatter(output, shards, opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """What functional collectives call."""
        each = ReduceScatterOptions()
        if opts is not None:
            each.reduceOp = opts.reduceOp
        return _together([self.reduce_scatter_single(o, i, each) for o, i in zip(outputs, inputs, strict=True)])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @_explained
    def _reduce_scatter(self, output: torch.Tensor, shards: list[torch.Tensor], opts: Any) -> Work | None:
        opts = opts or ReduceScatterOptions()
        op = opts.reduceOp.op
        check_reducible(op, output.dtype)
        if shards[self.rank()].numel() != output.numel():
            raise ValueError("the output must be as large as this rank's shard")
        check_same_type(output, *shards)
        if self._is_small(sum(shard.nbytes for shard in shards) * (self.size() - 1)):
            return self._begun(self._small.reduce_scatter(shards, output, op), [output], opts)
        written = Written(output)

        def collective(lane: Lane) -> Iterator[None]:
            yield from reductions.reduce_scatter(lane, shards, written.elements, op)
            written.finish()

        return self._engine.collective(collective, [output], "reduce_scatter", output.nbytes)

    @_explained
    def reduce(self, tensors: Tensors, opts: Any = None) -> Work | None:
        """`dist.reduce`: an all_reduce of copies, which the root alone keeps."""
        opts = opts or ReduceOptions()
        (tensor,), op, root = tensors, opts.reduceOp.op, opts.rootRank
        if op not in COMBINE or tensor.layout != torch.strided:
            return self._stock(self._control.reduce(tensors, opts))
        check_reducible(op, tensor.dtype)
        self._check_root(root)
        copy = flat(tensor).clone()

        def store() -> None:
            if self.rank() == root:
                tensor.detach().copy_(copy.view(tensor.shape))

        if self._is_small(tensor.nbytes * (self.size() - 1)):
            rest = self._small.all_reduce(copy, op)

            def finish() -> None:
                rest()
                store()

            return self._begun(finish, [tensor], opts)

        def collective(lane: Lane) -> Iterator[None]:
            yield from reductions.all_reduce(lane, copy, op)
            store()

        return self._engine.collective(collective, [tensor], "all_reduce", tensor.nbytes)

    # Moving.

    @_explained
    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work | None:
        """`dist.broadcast`."""
        opts = opts or BroadcastOptions()
        (tensor,), root = tensors, opts.rootRank
        written = Written(tensor, keep=True)
        if self._is_small(tensor.nbytes * (self.size() - 1)):
            rest = self._small.broadcast(written.memory, root)

            def finish() -> None:
                rest()
                written.finish()

            return self._begun(finish if written.is_copy else rest, [tensor], opts)

        def collective(lane: Lane) -> Iterator[None]:
            yield from moves.broadcast(lane, written.bytes, root)
            written.finish()

        return self._engine.collective(collective, [tensor], "broadcast", tensor.nbytes)

    @_explained
    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        """`dist.all_to_all`: what rank a lists for b has the size that b lists for a, any size."""
        check_same_type(*outputs, *inputs)
        written = [Written(tensor) for tensor in outputs]
        rest = self._small.all_to_all([w.memory for w in written], [given(i) for i in inputs])

        def finish() -> None:
            rest()
            finish_all(written)

        return self._begun(finish, list(outputs), opts)

    @_explained
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Work | None:
        """`dist.all_to_all_single`: splits along the first dimension, equal ones if none are given."""
        check_same_type(output, input)
        written, size = Written(output), self._size
        rest = self._small.all_to_all(
            split(written.memory, output_splits, output, size), split(given(input), input_splits, input, size)
        )

        def finish() -> None:
            rest()
            written.finish()

        return self._begun(finish if written.is_copy else rest, [output], opts)

    alltoall_base = all_to_all_single

    @_explained
    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work | None:
        """`dist.gather`: straight to the root."""
        (own,), shards = inputs, outputs[0] if outputs else ()
        self._check_shards(shards, own, opts.rootRank)
        written = [Written(shard) for shard in shards]
        rest = self._small.gather([shard.memory for shard in written], given(own), opts.rootRank)

        def finish() -> None:
            rest()
            finish_all(written)

        return self._begun(finish, list(shards), opts)

    @_explained
    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work | None:
        """`dist.scatter`: straight from the root."""
        (own,), shards = outputs, inputs[0] if inputs else ()
        self._check_shards(shards, own, opts.rootRank)
        written = Written(own)
        rest = self._small.scatter(written.memory, [given(shard) for shard in shards], opts.rootRank)

        def finish() -> None:
            rest()
            written.finish()

        return self._begun(finish, [own], opts)

    @_explained
    def send(self, tensors: Tensors, to: int, tag: int) -> Work:
        """`dist.send`, `dist.isend`: stock gloo's."""
        return self._stock(self._control.send(tensors, to, tag))

    @_explained
    def recv(self, tensors: Tensors, source: int, tag: int) -> Work:
        """`dist.recv`, `dist.irecv`."""
        return self._stock(self._control.recv(tensors, source, tag))

    @_explained
    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        """`dist.recv` from whoever comes first."""
        return self._stock(self._control.recv_anysource(tensors, tag))

    # Keeping together.

    @_explained
    def barrier(self, opts: Any = None) -> Work | None:
        """`dist.barrier`: ends when every rank has ended the bulk collectives that it queued before."""
        begin = self._small.barrier()
        if self._engine.is_idle:
            return self._begun(begin(), [], opts)
        return self._engine.work(lambda: begin()(), [])

    @_explained
    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """`dist.monitored_barrier`."""
        self._control.monitored_barrier(timeout, wait_all_ranks)

    def shutdown(self) -> None:
        """`dist.destroy_process_group`."""
        self._ending.shut_down()

    def _is_small(self, most_sent_bytes: int) -> bool:
        return most_sent_bytes <= SMALL_BYTES or self.size() == 1

    def _check_root(self, root: int) -> None:
        if not 0 <= root < self.size():
            raise ValueError(f"root {root}: the group has ranks 0 to {self.size() - 1}")

    def _check_shards(self, shards: Tensors, own: torch.Tensor, root: int) -> None:
        self._check_root(root)
        if len(shards) != (self.size() if root == self.rank() else 0):
            raise ValueError("the root lists one tensor for each rank, the others none")
        check_same_type(own, *shards)
        if any(shard.numel() != own.numel() for shard in shards):
            raise ValueError("all tensors must have the same size")

    def _stock(self, work: Work) -> Work:
        return StockWork(work, self._waiting.run, self._explain)

    def _begun(self, rest: Rest, result: list[torch.Tensor], opts: Any) -> Work | None:
        """None if it has ended already, as it has if the script waits: torch's way to say so."""
        if opts is not None and not opts.asyncOp:
            rest()
            return None
        work = LazyWork(result, rest, self._engine.in_turn, self._explain)
        if opts is not None:
            work.proceed()
        return work


def _together(works: list[Work | None]) -> Work:
    """Of collectives that were begun without a wait."""
    begun = [work for work in works if work is not None]
    return begun[0] if len(begun) == 1 else Together(begun)
