"""A library for user-mode kernels that are older than the processor: made once, from `xstate.c`, where it is needed.

It is needed where the processor's vector registers take more room than such a kernel has for them; the C file says
more. Nothing is made, and no compiler needed, on any other processor.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from testbed.kernels.cache import cache_folder
from topologies.errors import RingroadError

SOURCE = Path(__file__).with_name("xstate.c")
CPU_TABLE = Path("/proc/cpuinfo")
TOO_LARGE = "amx_tile"
"""The flag of processors whose vector registers take more than user-mode Linux up to 6.12 can hold."""
COMPILER_REMEDY = "install a compiler: apt-get install gcc libc6-dev (scripts/setup does that on such processors)"
COMPILE_TIMEOUT_S = 60.0


def is_needed(flags: str | None = None) -> bool:
    """Whether this processor (or one with these flags) has more than older user-mode kernels can hold."""
    text = CPU_TABLE.read_text(errors="replace") if flags is None else f"flags: {flags}"
    return any(TOO_LARGE in line.split() for line in text.splitlines() if line.startswith("flags"))


def preload() -> Path | None:
    """The library, made if it is not there yet; None where it is not needed. RingroadError without a compiler."""
    if not is_needed():
        return None
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    made = cache_folder() / f"xstate-{digest}.so"
    if not made.exists():
        _compile(made)
    return made


def _compile(target: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RingroadError("this processor needs a small library for the user-mode kernel", COMPILER_REMEDY)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", unfinished, SOURCE, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise RingroadError(f"{SOURCE.name} does not compile: {said[-1] if said else ''}", COMPILER_REMEDY)
    unfinished.rename(target)
