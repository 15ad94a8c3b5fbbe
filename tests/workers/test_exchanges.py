"""all_to_all: how a tensor is split among the ranks, and that very uneven splits arrive whole."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

from workers.backend.written import split


def test_a_tensor_is_split_by_its_rows():
    tensor = torch.arange(24).view(6, 4)
    flat = tensor.view(-1)
    assert [part.tolist() for part in split(flat, [1, 0, 5], tensor, 3)] == [[0, 1, 2, 3], [], list(range(4, 24))]
    assert [len(part) for part in split(flat, [], tensor, 3)] == [8, 8, 8]


@pytest.mark.parametrize(("splits", "ranks"), [([], 4), ([3, 3], 3), ([1, 1, 1], 3)])
def test_splits_that_do_not_make_up_the_tensor_are_refused(splits: list[int], ranks: int):
    tensor = torch.arange(24).view(6, 4)
    with pytest.raises(ValueError, match="6 rows"):
        split(tensor.view(-1), splits, tensor, ranks)


def test_a_direction_that_is_much_larger_than_its_opposite_arrives_whole():
    """From rank 0 to 1 goes a hundred times more than back, to rank 2 nothing, and the other way round."""

    def main() -> None:
        rank, large, little = dist.get_rank(), 300_000, 700
        counts = [[little, large, 0], [little, 5, large], [large, 0, little]]  # from row to column
        arriving = [row[rank] for row in counts]
        given = torch.cat([torch.full((count,), 10.0 * rank + peer) for peer, count in enumerate(counts[rank])])
        got = torch.empty(sum(arriving))
        dist.all_to_all_single(got, given, arriving, counts[rank])
        expected = [torch.full((count,), 10.0 * peer + rank) for peer, count in enumerate(arriving)]
        assert torch.equal(got, torch.cat(expected))

    run_ranks(3, main)
