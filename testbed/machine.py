"""What machine, and which commit of Ringroad, something was measured on: a label for people, never an input.

Knows nothing of runs. What cannot be found out is None; looking changes nothing.
"""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GIT_TIMEOUT_S = 10.0


def describe() -> dict[str, str | int | float]:
    """Processor, cores (of the machine), memory in bytes, kernel, and the load of the last minute."""
    return {
        "processor": _processor() or platform.machine(),
        "cores": os.cpu_count() or 0,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def commit(root: Path = ROOT) -> dict[str, str | bool] | None:
    """`commit`, and whether files under version control differ from it (`dirty`); None if `root` is no git checkout."""
    found = _git(root, "rev-parse", "--show-toplevel", "HEAD")
    if found is None:
        return None
    top, _, name = found.partition("\n")
    if Path(top).resolve() != root.resolve():
        return None
    return {"commit": name, "dirty": _git(root, "status", "--porcelain", "--untracked-files=no") != ""}


def _git(root: Path, *arguments: str) -> str | None:
    """What git says; None if it is missing or refuses. Root may look at a checkout that belongs to somebody else."""
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    fields = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in fields if key.strip() == "model name"), "")
