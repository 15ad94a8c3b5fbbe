"""How much memory a user-mode kernel is given, and whether this machine has it. Nothing is taken before it is used."""

from __future__ import annotations

import os
from pathlib import Path

from topologies.errors import RingroadError
from topologies.units import format_size

BASE_BYTES = 3 * 2**29
RANK_BYTES = 200 * 2**20
"""What the system, the controller and the runner take, and each worker besides its tensors."""

SHARED_MEMORY = Path("/dev/shm")
"""Where user-mode kernels keep their memory if it is a tmpfs."""


def memory_for(ranks: int, size_bytes: int) -> int:
    """Bytes for a run of this many workers that each contribute `size_bytes`: shards, results and what checks them."""
    return BASE_BYTES + ranks * RANK_BYTES + 2 * ranks * (ranks + 1) * size_bytes


def check(needed_bytes: int) -> None:
    """RingroadError, with the remedy, unless this machine has so much memory free, and room for it in /dev/shm."""
    available = _available_bytes()
    if available < needed_bytes:
        raise RingroadError(
            f"the user-mode kernel needs {format_size(needed_bytes)} of memory, and {format_size(available)} are free",
            "end other programs, give a smaller payload or fewer DCs, or take this machine's own with --kernel native",
        )
    if not os.path.ismount(SHARED_MEMORY):
        return
    room = os.statvfs(SHARED_MEMORY)
    free = room.f_bavail * room.f_frsize
    if free < needed_bytes:
        raise RingroadError(
            f"the user-mode kernel keeps its {format_size(needed_bytes)} of memory in {SHARED_MEMORY}, which has room "
            f"for {format_size(free)}",
            f"mount -o remount,size={needed_bytes // 2**20 + 64}M {SHARED_MEMORY}",
        )


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
