"""What people train with runs unchanged on the `ring` backend, and leaves bit-equal parameters on all ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from ranks import HANGING_S, run_ranks
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

from workers.group import ring_of, set_order

STEPS = 4
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_transformer.py"


def model() -> nn.Module:
    """280 kB in fp32: its large layer goes round the ring, its small ones do not."""
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64), nn.LayerNorm(64), nn.Linear(64, 10))


def train(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Every rank on data of its own; the ring changes on the way."""
    numbers = torch.Generator().manual_seed(dist.get_rank())
    n = dist.get_world_size()
    for step in range(STEPS):
        set_order(None, [(place * (n - 1) + step) % n for place in range(n)])
        inputs = torch.randn(16, 64, generator=numbers)
        targets = torch.randint(0, 10, (16,), generator=numbers)
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(inputs), targets).backward()
        optimizer.step()
    assert ring_of().epoch >= STEPS - 1


def assert_bit_equal(tensors: list[torch.Tensor]) -> None:
    """On all ranks, compared over stock gloo."""
    gloo = dist.new_group(list(range(dist.get_world_size())), backend="gloo")
    mine = torch.cat([tensor.detach().flatten() for tensor in tensors]).view(torch.int32)
    everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, mine, group=gloo)
    assert all(torch.equal(mine, theirs) for theirs in everyones)


def trained_alone(ranks: int) -> list[torch.Tensor]:
    """The same training by one process that sees everybody's data."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    numbers = [torch.Generator().manual_seed(rank) for rank in range(ranks)]
    for _ in range(STEPS):
        optimizer.zero_grad()
        for generator in numbers:
            inputs = torch.randn(16, 64, generator=generator)
            targets = torch.randint(0, 10, (16,), generator=generator)
            (nn.functional.cross_entropy(module(inputs), targets) / ranks).backward()
        optimizer.step()
    return list(module.parameters())


def assert_like_alone(parameters: list[torch.Tensor]) -> None:
    for got, expected in zip(parameters, trained_alone(dist.get_world_size()), strict=True):
        torch.testing.assert_close(got.detach(), expected.detach(), rtol=1e-4, atol=1e-5)


def test_distributed_data_parallel_trains_bit_equal_parameters():
    def main() -> None:
        module = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.1)
        train(module, torch.optim.SGD(module.parameters(), lr=0.1))
        assert_bit_equal(list(module.parameters()))
        assert_like_alone(list(module.parameters()))

    run_ranks(3, main)


def test_fully_sharded_data_parallel_2_trains_bit_equal_parameters():
    def main() -> None:
        mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
        module = model()
        for layer in module:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        train(module, torch.optim.SGD(module.parameters(), lr=0.1))
        whole = [parameter.full_tensor() for parameter in module.parameters()]
        assert_bit_equal(whole)
        assert_like_alone(whole)

    run_ranks(3, main)


def test_the_zero_redundancy_optimizer_trains_bit_equal_parameters():
    def main() -> None:
        module = nn.parallel.DistributedDataParallel(model())
        optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.SGD, lr=0.1)
        train(module, optimizer)
        optimizer.consolidate_state_dict(to=0)
        assert_bit_equal(list(module.parameters()))
        assert_like_alone(list(module.parameters()))

    run_ranks(3, main)


def test_the_example_trains_under_torchrun_and_prints_its_step_time():
    arguments = ["--nproc-per-node", "2", os.fspath(EXAMPLE), "--steps", "3", "--width", "64"]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.fspath(EXAMPLE.parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGING_S,
    )
    assert done.returncode == 0, done.stderr
    assert "2 ranks, backend ring, 110,272 parameters" in done.stdout
    assert "step time: median" in done.stdout
    assert "bit-equal on all ranks" in done.stdout
