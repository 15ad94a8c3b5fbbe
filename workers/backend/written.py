"""Tensors as flat memory: what collectives read, and what they write and bring back to where it belongs."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence

import torch


class Written:
    """A tensor that a collective writes, as flat memory: its own if it is contiguous, else a copy brought back.

    `keep`: the collective reads it too.
    """

    def __init__(self, tensor: torch.Tensor, *, keep: bool = False) -> None:
        self._tensor = tensor.detach()
        self.is_copy = not _is_plain(tensor)
        if not self.is_copy:
            self.contiguous = self._tensor
        elif keep:
            self.contiguous = _plain(self._tensor)
        else:
            self.contiguous = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)

    @property
    def elements(self) -> torch.Tensor:
        """In one dimension."""
        return self.contiguous.view(-1)

    @property
    def bytes(self) -> torch.Tensor:
        """As uint8, in one dimension."""
        return self.elements.view(torch.uint8)

    @property
    def memory(self) -> memoryview:
        """As bytes, without torch."""
        return memory_of(self.contiguous)

    def finish(self) -> None:
        """The result is complete: it goes to where it belongs."""
        if self.is_copy:
            self._tensor.copy_(self.contiguous)


def finish_all(written: Sequence[Written]) -> None:
    """Every one of them is complete."""
    for tensor in written:
        tensor.finish()


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements in one dimension; a copy if it is not contiguous."""
    return _plain(tensor.detach()).view(-1)


def given(tensor: torch.Tensor) -> memoryview:
    """Its bytes, to be read; of a copy if it is not contiguous."""
    return memory_of(_plain(tensor))


def memory_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor, whose memory lives as long as the view. ValueError unless it is in main memory.

    Without torch's own operations: the ten of them that a small message would need cost more than sending it.
    """
    if not tensor.is_cpu:
        raise ValueError(f"a tensor on {tensor.device}: the ring backend serves those on the cpu")
    memory = (ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr())
    memory.tensor = tensor.detach()  # the script may give its own other data
    return memoryview(memory).cast("B")


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two contiguous tensors share memory."""
    begin, end = one.data_ptr(), one.data_ptr() + one.nbytes
    return begin < other.data_ptr() + other.nbytes and other.data_ptr() < end


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if _is_plain(tensor) else tensor.resolve_conj().resolve_neg().contiguous()


def check_same_type(*tensors: torch.Tensor) -> None:
    """ValueError unless all have one dtype."""
    first = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != first:
            raise ValueError(f"tensors of one collective must have one dtype, not {first} and {tensor.dtype}")


def split(memory: memoryview, splits: Sequence[int], of: torch.Tensor, ranks: int) -> list[memoryview]:
    """The `memory` of tensor `of`, by rank: as many of its rows as `splits` says, equally many if that is empty.

    ValueError where that is not all of it.
    """
    rows = len(of) if of.dim() else 1
    if not splits:
        if rows % ranks:
            raise ValueError(f"{rows} rows cannot be split equally among {ranks} ranks")
        size = len(memory) // ranks
        return [memory[begin : begin + size] for begin in range(0, size * ranks, size or 1)] or [memory] * ranks
    counts = list(splits)
    if len(counts) != ranks or sum(counts) != rows:
        raise ValueError(f"the splits {counts} do not make up the {rows} rows of the tensor for {ranks} ranks")
    row_bytes = len(memory) // rows if rows else 0
    bounds = [0, *itertools.accumulate(count * row_bytes for count in counts)]
    return [memory[begin:end] for begin, end in itertools.pairwise(bounds)]
