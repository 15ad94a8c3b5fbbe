"""What the `ring` backend needs beside the tensors of a collective, against stock gloo: at most a window of chunks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from ranks import run_ranks

from workers.backend.cutting import CHUNK_BYTES

MIB = 2**20
SHARD_BYTES = 12 * MIB
SLACK_BYTES = 3 * MIB
"""Kernel and allocator: pages come in larger pieces than tensors ask for."""


def resident_bytes(what: str) -> int:
    """VmRSS or VmHWM (the peak) of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def peak_bytes(collective: Callable[[], None]) -> int:
    """By how much the process grows at most while it runs for the first time."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident_bytes("VmRSS")
    collective()
    return resident_bytes("VmHWM") - before


def test_bulk_collectives_need_no_more_than_a_shard_and_a_chunk_beside_stock_gloo():
    def main() -> dict[str, tuple[int, int]]:
        n = dist.get_world_size()
        gloo = dist.new_group(list(range(n)), backend="gloo")
        shard = torch.ones(SHARD_BYTES // 4)
        whole = torch.ones(shard.numel() * n)
        given = torch.ones_like(whole)
        collectives = {
            "all_gather": lambda group: dist.all_gather_single(whole, shard, group=group),
            "reduce_scatter": lambda group: dist.reduce_scatter_single(shard, whole, group=group),
            "all_reduce": lambda group: dist.all_reduce(whole, dist.ReduceOp.MAX, group=group),
            "broadcast": lambda group: dist.broadcast(whole, 0, group=group),
            "all_to_all": lambda group: dist.all_to_all_single(whole, given, group=group),
        }
        return {
            name: tuple(peak_bytes(lambda group=group, run=run: run(group)) for group in (dist.group.WORLD, gloo))
            for name, run in collectives.items()
        }

    for by_collective in run_ranks(3, main):
        for name, (ring, stock) in by_collective.items():
            assert ring - stock <= SHARD_BYTES + CHUNK_BYTES + SLACK_BYTES, (name, ring, stock)
            print(f"{name}: {ring / MIB:.1f} MiB, stock gloo {stock / MIB:.1f} MiB")
