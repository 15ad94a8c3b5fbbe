"""Commands in user-mode kernels, for tests: started as programs of their own, so that they can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from waiting import eventually

STATE_ROOT = Path("/run/ringroad")
PROGRAM = """
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.INFO, format="%(message)s")
from testbed.interruption import interruptible
from testbed.kernels.choosing import Choice, Kernel
from testbed.kernels.relaunch import carry_out
from topologies.errors import RingroadError
try:
    with interruptible():
        kernel, writable, *command = sys.argv[1:]
        choice = Choice(Kernel(kernel), "for a test")
        sys.exit(carry_out(choice, command, writable=[Path(writable)], log_folder=Path(writable), memory_bytes=2**30))
except RingroadError as error:
    print(f"ringroad: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
"""


def start(kernel: str, writable: Path, command: list[str], **options) -> subprocess.Popen:
    """A command in a kernel of that kind, with its output in pipes."""
    arguments = [sys.executable, "-c", PROGRAM, kernel, str(writable), *command]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def run(kernel: str, writable: Path, command: list[str], timeout_s: float = 150, **options):
    """As `start`, to its end."""
    process = start(kernel, writable, command, **options)
    output, errors = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def state_folder_of(pid: int) -> Path:
    """The state folder of the kernel that process `pid` boots, once it is there."""
    return eventually(lambda: next((folder for folder in _folders() if _owner(folder) == pid), None))


def processes_of(state_folder: Path) -> list[str]:
    """Command lines of all processes that belong to a kernel."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"uml_dir={state_folder}/" in command:
            found.append(command)
    return found


def _folders() -> list[Path]:
    return [folder for folder in STATE_ROOT.glob("*") if folder.is_dir()] if STATE_ROOT.is_dir() else []


def _owner(folder: Path) -> int | None:
    try:
        return json.loads((folder / "owner.json").read_text())["pid"]
    except (OSError, ValueError, KeyError):
        return None


def environment(**more: str) -> dict[str, str]:
    """This process's, and more."""
    return {**os.environ, **more}
