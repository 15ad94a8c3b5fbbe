"""The `ring` backend: `import workers.group`, then `init_process_group("ring")`, and the script's rings can re-order.

Bulk collectives run as chunk-pipelined rings over gloo's point-to-point in the group's present ring order; small ones
and everything that a ring does not serve are stock gloo's, on connections of their own. Ring order: `set_order`, or
a ring agent that the environment asks for (`workers.backend.automatic`). Knows no testbed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
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
from workers.backend.engine import Engine
from workers.backend.lane import Lane
from workers.backend.work import Together

BULK_BYTES = 64 * 1024
"""Tensors of at least that many bytes in all go round the ring; below, latency counts and stock gloo is as quick."""

Tensors = Sequence[torch.Tensor]


class RingProcessGroup(dist.ProcessGroup):
    """Two inner gloo groups: `data` carries what goes round the ring, `control` everything else.

    An operation that is not overridden here is stock gloo's, through the backend that the base class holds.
    """

    def __init__(self, options: Any) -> None:
        rank, size = options.group_rank, options.group_size
        super().__init__(rank, size)
        self._control = ProcessGroupGloo(PrefixStore("control", options.store), rank, size, options.timeout)
        self._data = ProcessGroupGloo(PrefixStore("data", options.store), rank, size, options.timeout)
        self._control._set_sequence_number_for_group()
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, self._control)
        self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        ranks = list(options.global_ranks_in_group) or list(range(size))
        self._engine = Engine(self._data, from_environment(self._data, options.group_id, ranks))

    @property
    def ring(self) -> Ring:
        """The order of the next bulk collective, in ranks of this group, once all that is queued has run."""
        return self._engine.ring

    def set_order(self, order: Sequence[int]) -> None:
        """See `workers.group.set_order`."""
        if sorted(order) != list(range(self.size())):
            raise InputError("not every rank of the group once", place="ring order", value=list(order))
        self._engine.set_order(order).wait()

    def getBackendName(self) -> str:  # noqa: N802
        """What `dist.get_backend` calls it."""
        return "ring"

    # Gathering.

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """`dist.all_gather`: shards of any sizes, as long as every rank lists the same."""
        opts = opts or AllgatherOptions()
        output, own = outputs[0], inputs[0]
        even = all(tensor.shape == own.shape for tensor in output)
        if even and not self._is_bulk(own.nbytes * len(output), own):
            return self._control.allgather(outputs, inputs, opts)
        return self._gather(list(output), own)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """`dist.all_gather_into_tensor`."""
        if not self._is_bulk(output.nbytes, input):
            return self._control._allgather_base(output, input, opts or AllgatherOptions())
        _same_type(output, input)
        if output.numel() != input.numel() * self.size():
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        flat = _Written(output)
        shards = flat.bytes.split(input.nbytes)
        own = _bytes(input)

        def collective(lane: Lane) -> None:
            shards[lane.rank].copy_(own)
            moves.all_gather(lane, shards)
            flat.finish()

        return self._engine.run(collective, [output])

    _allgather_base = all_gather_single

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """`outputs[r]` are rank r's tensors."""
        by_tensor = zip(*outputs, strict=True)
        return _together([self.allgather([list(o)], [i], opts) for o, i in zip(by_tensor, inputs, strict=True)])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """What functional collectives call."""
        return _together([self.all_gather_single(o, i, opts) for o, i in zip(outputs, inputs, strict=True)])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gather(self, outputs: list[torch.Tensor], own: torch.Tensor) -> Work:
        for tensor in outputs:
            _same_type(tensor, own)
        flats = [_Written(tensor) for tensor in outputs]
        shards, mine = [flat.bytes for flat in flats], _bytes(own)
        if shards[self.rank()].nbytes != mine.nbytes:
            raise ValueError("the output of this rank must be as large as its input")

        def collective(lane: Lane) -> None:
            shards[lane.rank].copy_(mine)
            moves.all_gather(lane, shards)
            for flat in flats:
                flat.finish()

        return self._engine.run(collective, outputs)

    # Reducing.

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work:
        """`dist.all_reduce`."""
        opts = opts or AllreduceOptions()
        (tensor,) = tensors
        op = opts.reduceOp.op
        if op not in reductions.COMBINE or not self._is_bulk(tensor.nbytes, tensor) and op != dist.ReduceOp.AVG:
            return self._control.allreduce(tensors, opts)
        flat = _Written(tensor, keep=True)

        def collective(lane: Lane) -> None:
            reductions.all_reduce(lane, flat.elements, op)
            flat.finish()

        return self._engine.run(collective, [tensor])

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """Each of them."""
        each = AllreduceOptions()
        each.reduceOp = (opts or AllreduceCoalescedOptions()).reduceOp
        return _together([self.allreduce([tensor], each) for tensor in tensors])

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work:
        """`dist.reduce_scatter`: shards of any sizes, as long as every rank lists the same."""
        opts = opts or ReduceScatterOptions()
        return self._reduce_scatter(outputs[0], [_flat(tensor) for tensor in inputs[0]], opts)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """`dist.reduce_scatter_tensor`."""
        opts = opts or ReduceScatterOptions()
        if output.numel() * self.size() != input.numel():
            raise ValueError("input tensor must be the same size as output size times world size")
        shards = [_flat(input)[begin:end] for begin, end in parts(input.numel(), self.size())]
        return self._reduce_scatter(output, shards, opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """What functional collectives call."""
        return _together([self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs, strict=True)])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(self, output: torch.Tensor, shards: list[torch.Tensor], opts: ReduceScatterOptions) -> Work:
        op = opts.reduceOp.op
        if op not in reductions.COMBINE:
            raise ValueError(f"reduce_scatter has no {op}")
        if shards[self.rank()].numel() != output.numel():
            raise ValueError("the output must be as large as this rank's shard")
        for shard in shards:
            _same_type(output, shard)
        flat = _Written(output)

        def collective(lane: Lane) -> None:
            reductions.reduce_scatter(lane, shards, flat.elements, op)
            flat.finish()

        return self._engine.run(collective, [output])

    def reduce(self, tensors: Tensors, opts: Any = None) -> Work:
        """`dist.reduce`: stock gloo's, which knows no AVG."""
        opts = opts or ReduceOptions()
        if opts.reduceOp.op != dist.ReduceOp.AVG:
            return self._control.reduce(tensors, opts)
        each = AllreduceOptions()
        each.reduceOp = opts.reduceOp
        return self.allreduce(tensors, each)

    # Moving.

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work:
        """`dist.broadcast`."""
        opts = opts or BroadcastOptions()
        (tensor,) = tensors
        if not self._is_bulk(tensor.nbytes, tensor):
            return self._control.broadcast(tensors, opts)
        flat, root = _Written(tensor, keep=True), opts.rootRank

        def collective(lane: Lane) -> None:
            moves.broadcast(lane, flat.bytes, root)
            flat.finish()

        return self._engine.run(collective, [tensor])

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """`dist.all_to_all`: what rank a lists for b has the size that b lists for a."""
        return self._all_to_all(list(outputs), [_bytes(tensor) for tensor in inputs], list(outputs))

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Work:
        """`dist.all_to_all_single`: splits along the first dimension, equal ones if none are given."""
        _same_type(output, input)
        flat = _Written(output)
        incoming = _split(flat.bytes, output, output_splits, self.size())
        outgoing = _split(_bytes(input), input, input_splits, self.size())

        def collective(lane: Lane) -> None:
            moves.all_to_all(lane, incoming, outgoing)
            flat.finish()

        return self._engine.run(collective, [output])

    alltoall_base = all_to_all_single

    def _all_to_all(
        self, outputs: list[torch.Tensor], outgoing: list[torch.Tensor], result: list[torch.Tensor]
    ) -> Work:
        flats = [_Written(tensor) for tensor in outputs]
        incoming = [flat.bytes for flat in flats]

        def collective(lane: Lane) -> None:
            moves.all_to_all(lane, incoming, outgoing)
            for flat in flats:
                flat.finish()

        return self._engine.run(collective, result)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        """`dist.gather`: stock gloo's, straight to the root."""
        return self._control.gather(outputs, inputs, opts)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        """`dist.scatter`: stock gloo's, straight from the root."""
        return self._control.scatter(outputs, inputs, opts)

    def send(self, tensors: Tensors, to: int, tag: int) -> Work:
        """`dist.send`, `dist.isend`: on connections of their own, with tags of their own."""
        return self._control.send(tensors, to, tag)

    def recv(self, tensors: Tensors, source: int, tag: int) -> Work:
        """`dist.recv`, `dist.irecv`."""
        return self._control.recv(tensors, source, tag)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        """`dist.recv` from whoever comes first."""
        return self._control.recv_anysource(tensors, tag)

    # Keeping together.

    def barrier(self, opts: Any = None) -> Work:
        """`dist.barrier`: every rank has ended the bulk collectives that it queued before."""
        return self._engine.barrier()

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """`dist.monitored_barrier`."""
        self._control.monitored_barrier(timeout, wait_all_ranks)

    def shutdown(self) -> None:
        """`dist.destroy_process_group`: what is queued still runs."""
        self._engine.stop()

    def _is_bulk(self, size_bytes: int, tensor: torch.Tensor) -> bool:
        return size_bytes >= BULK_BYTES and tensor.layout == torch.strided and self.size() > 1


def set_order(group: dist.ProcessGroup | None, order: Sequence[int]) -> Ring:
    """Run the bulk collectives of `group` (None: the default one) in this order of its ranks from here on.

    A collective itself: every rank of the group calls it, between the same two collectives, with the same order.
    Blocks until all agree; returns the ring with its epoch, the count of changes. InputError if `order` is no order
    of the group's ranks or the group is not of this backend, Disagreement if ranks differ (the order then stays).
    """
    ring_group = _ring_group(group)
    ring_group.set_order(order)
    return ring_group.ring


def ring_of(group: dist.ProcessGroup | None = None) -> Ring:
    """The ring of `group` as it is now. InputError if the group is not of this backend."""
    return _ring_group(group).ring


def _ring_group(group: dist.ProcessGroup | None) -> RingProcessGroup:
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, RingProcessGroup):
        raise InputError("not a process group of the ring backend", value=found, remedy='init_process_group("ring")')
    return found


class _Written:
    """A tensor that a collective writes, as flat memory: its own if it is contiguous, else a copy brought back."""

    def __init__(self, tensor: torch.Tensor, keep: bool = False) -> None:
        self._tensor = tensor
        if tensor.is_contiguous():
            self._flat = tensor.detach()
        else:
            self._flat = tensor.detach().contiguous() if keep else torch.empty(tensor.shape, dtype=tensor.dtype)
        self.elements = self._flat.view(-1)

    @property
    def bytes(self) -> torch.Tensor:
        return self.elements.view(torch.uint8)

    def finish(self) -> None:
        """The result is complete: it goes to where it belongs."""
        if not self._tensor.is_contiguous():
            self._tensor.detach().copy_(self._flat)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(-1)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return _flat(tensor).view(torch.uint8)


def _split(flat: torch.Tensor, tensor: torch.Tensor, splits: Sequence[int], ranks: int) -> list[torch.Tensor]:
    """The bytes of `tensor`, cut along its first dimension."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if rows % ranks:
            raise ValueError("Tensor's dim 0 does not divide equally across group size")
        splits = [rows // ranks] * ranks
    if len(splits) != ranks or sum(splits) != rows:
        raise ValueError("Split sizes doesn't match total dim 0 size")
    row_bytes = flat.numel() // rows if rows else 0
    return list(flat.split([row_bytes * count for count in splits]))


def _same_type(a: torch.Tensor, b: torch.Tensor) -> None:
    if a.dtype != b.dtype:
        raise ValueError(f"tensors of one collective must have one dtype, not {a.dtype} and {b.dtype}")


def _together(works: list[Work]) -> Work:
    return works[0] if len(works) == 1 else Together(works)


def _create(options: Any, _: Any) -> RingProcessGroup:
    return RingProcessGroup(options)


_Create = Callable[[Any, Any], RingProcessGroup]

if "RING" not in dist.Backend._plugins:
    dist.Backend.register_backend("ring", _create, extended_api=True, devices=["cpu"])
