"""Sums over real gloo along planned trees, run backwards: against what every rank can compute by itself."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

from benchmarks.randomwans import sparse_network
from workers.network import reversed_network
from workers.reductions import all_reduce, reduce_scatter
from workers.schedules.choice import PLANNERS
from workers.schedules.forest import plan_of
from workers.schedules.reverse import all_reduce as all_reduce_plan
from workers.schedules.reverse import reduce_scatter as reduce_plan

RANKS, SHARD, CHUNK = 4, 1003, 100


def part_of(rank: int) -> torch.Tensor:
    return torch.randint(-1000, 1000, (RANKS, SHARD), generator=torch.Generator().manual_seed(rank))


def reduced(schedule: str) -> tuple[bool, bool]:
    """Whether the ReduceScatter, and the AllReduce after it, gave this rank what it should."""
    rank = dist.get_rank()
    network, listed = sparse_network(RANKS, 2), tuple(range(RANKS))
    towards = plan_of(PLANNERS[schedule](reversed_network(network), listed), rank, SHARD, CHUNK)
    away = plan_of(PLANNERS[schedule](network, listed), rank, SHARD, CHUNK)
    group = dist.group.WORLD._get_backend(torch.device("cpu"))
    total = sum(part_of(each) for each in range(RANKS))
    mine = reduce_scatter(group, reduce_plan(towards), part_of(rank), 0, 0)
    everything = part_of(rank)
    all_reduce(group, all_reduce_plan(towards, away), everything, 0, 1)
    return torch.equal(mine, total[rank]), torch.equal(everything, total)


@pytest.mark.parametrize("schedule", sorted(PLANNERS))
def test_every_rank_gets_the_sum_of_all_parts(schedule: str):
    assert run_ranks(RANKS, reduced, schedule, backend="gloo") == [(True, True)] * RANKS
