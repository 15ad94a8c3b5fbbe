"""Tensors as flat memory: what collectives read, and what they write and bring back to where it belongs."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Written:
    """A tensor that a collective writes, as flat memory: its own if it is contiguous, else a copy brought back.

    `keep`: the collective reads it too.
    """

    def __init__(self, tensor: torch.Tensor, *, keep: bool = False) -> None:
        self._tensor = tensor.detach()
        self.is_copy = not tensor.is_contiguous()
        if not self.is_copy:
            self.contiguous = self._tensor
        elif keep:
            self.contiguous = self._tensor.contiguous()
        else:
            self.contiguous = torch.empty(tensor.shape, dtype=tensor.dtype)

    @property
    def elements(self) -> torch.Tensor:
        """In one dimension."""
        return self.contiguous.view(-1)

    @property
    def bytes(self) -> torch.Tensor:
        """As uint8, in one dimension."""
        return self.elements.view(torch.uint8)

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
    return tensor.detach().contiguous().view(-1)


def check_same_type(*tensors: torch.Tensor) -> None:
    """ValueError unless all have one dtype."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        raise ValueError(f"tensors of one collective must have one dtype, not {dtypes}")


def split(data: torch.Tensor, splits: Sequence[int], of: torch.Tensor, ranks: int) -> list[torch.Tensor]:
    """The flat `data` of tensor `of`, by rank: as many of its rows as `splits` says, equally many if that is empty.

    ValueError where that is not all of it.
    """
    rows = of.shape[0] if of.dim() else of.numel()
    if not splits and rows % ranks:
        raise ValueError(f"{rows} rows cannot be split equally among {ranks} ranks")
    counts = list(splits) or [rows // ranks] * ranks
    if len(counts) != ranks or sum(counts) != rows:
        raise ValueError(f"the splits {counts} do not make up the {rows} rows of the tensor for {ranks} ranks")
    row_bytes = data.numel() // rows if rows else 0
    return list(data.split([count * row_bytes for count in counts]))
