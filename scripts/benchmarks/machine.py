"""What machine a figure was measured on: a label for people, never an input to a measurement."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe() -> dict[str, str | int | float]:
    """Processor, cores, memory in bytes, kernel, and the load of the last minute, which should be near 0."""
    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": os.cpu_count() or 0,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _field(file: Path, name: str) -> str:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
