"""The state folder of a run, who owns it and whether the owner lives, and the lock on the machine.

An owner is a process id together with the time it started, so that a reused id is never taken for the owner.
The folder comes into being whole, by a rename; it is the last thing that is removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed.emulation.plan import RUN_ID
from topologies import RingroadError

STATE_ROOT = Path("/run/ringroad")
LOCK_FILE = STATE_ROOT / "bed.lock"
ENDED_FILE = STATE_ROOT / "ended.json"
"""How the last testbed ended that people had brought up, if it did by itself."""

OWNER_FILE = "owner.json"
_UNFINISHED = re.compile(rf"\.{RUN_ID.pattern}\.(\d+)")


@dataclass(frozen=True)
class Owner:
    """A process. `start_ticks` is field 22 of /proc/PID/stat; `started` is a label for people."""

    pid: int
    start_ticks: int
    command: str
    started: str

    @staticmethod
    def here() -> Owner:
        """This process."""
        command = " ".join(sys.orig_argv)[:200]
        ticks = start_ticks(os.getpid())
        assert ticks is not None
        return Owner(os.getpid(), ticks, command, time.strftime("%Y-%m-%d %H:%M:%S"))

    @property
    def alive(self) -> bool:
        """Whether it is still the same process and has not ended."""
        return is_alive(self.pid, self.start_ticks)


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it is gone or has ended and waits to be reaped."""
    state, *rest = _stat(pid)
    return None if state in "ZX" else int(rest[18])


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger holds it."""
    return _stat(pid)[0] in "Tt"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; that of a process that is gone is X, as for one that is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X"]


def is_alive(pid: int, ticks: int) -> bool:
    """Whether process `pid` is the one that started at `ticks`, and runs."""
    return start_ticks(pid) == ticks


def make_state_folder(run_id: str) -> Path:
    """The folder of a new run, owned by this process, readable by nobody else."""
    folder = STATE_ROOT / run_id
    new = STATE_ROOT / f".{run_id}.{os.getpid()}"
    new.mkdir(mode=0o700)
    (new / OWNER_FILE).write_text(json.dumps(asdict(Owner.here())))
    new.rename(folder)
    return folder


def remove_state_folder(folder: Path) -> None:
    """Delete it; last of all, because it is how clean-up learns of a run."""
    shutil.rmtree(folder, ignore_errors=True)


def make_state_root() -> None:
    """/run/ringroad, if it is not there. RingroadError if it cannot be."""
    try:
        STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        raise RingroadError(
            f"cannot make {STATE_ROOT}: {error.strerror}", "run it as root: sudo .venv/bin/ringroad …"
        ) from error


def owners() -> dict[str, Owner | None]:
    """Run id and owner of every state folder; None for one whose owner cannot be read any more."""
    found: dict[str, Owner | None] = {}
    for folder in sorted(STATE_ROOT.glob("*")) if STATE_ROOT.is_dir() else []:
        if folder.is_dir() and RUN_ID.fullmatch(folder.name):
            found[folder.name] = _read_owner(folder)
    return found


def living_runs() -> set[str]:
    """Run ids whose owner lives."""
    return {run_id for run_id, owner in owners().items() if owner is not None and owner.alive}


def note_end(run_id: str, why: str) -> None:
    """Leave word, for who asks later where it is, that a run has ended by itself. Forgotten by `forget_end`."""
    ended = {
        "run_id": run_id,
        "why": why.partition("; the end of ")[0].strip().partition("\n")[0],
        "at": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    with suppress(OSError):
        ENDED_FILE.write_text(json.dumps(ended))


def last_end() -> str:
    """What `note_end` left, in words; empty if nothing."""
    try:
        ended = json.loads(ENDED_FILE.read_text())
        return f"run {ended['run_id']} ended by itself at {ended['at']}: {ended['why']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def forget_end() -> bool:
    """Whether there was anything to forget."""
    try:
        ENDED_FILE.unlink()
    except OSError:
        return False
    return True


def unfinished_folders() -> list[Path]:
    """State folders whose maker died before they had their name."""
    return [
        folder
        for folder in STATE_ROOT.glob(".*")
        if (found := _UNFINISHED.fullmatch(folder.name)) and start_ticks(int(found[1])) is None
    ]


def _read_owner(folder: Path) -> Owner | None:
    try:
        return Owner(**json.loads((folder / OWNER_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


class MachineLock:
    """One testbed at a time on a machine: two would share its cores, and neither could be trusted."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def take(self, run_id: str) -> None:
        """Hold it until `release`, or until this process ends, however it ends. RingroadError names who holds it."""
        make_state_root()
        descriptor = os.open(LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise RingroadError(
                f"another testbed runs on this machine: {_describe_holder(holder)}",
                "wait for it or end it; two at a time would disturb each other's figures",
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"run_id": run_id, **asdict(Owner.here())}).encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back; nothing happens if it is not held."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def _describe_holder(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"run {holder['run_id']}, pid {holder['pid']} ({holder['command']}), since {holder['started']}"
    except (ValueError, KeyError, TypeError):
        return f"its lock is {LOCK_FILE}"
