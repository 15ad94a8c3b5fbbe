"""What a command can know of the kernel that it runs on, and how it tells its progress to whoever booted it."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

from testbed.kernels.channel import CONTROL, JOB_FILE, Job, encode, job_from_text
from testbed.kernels.choosing import MODES, Kernel
from testbed.kernels.guestsystem import BELOW, TEMPORARY


@cache
def job() -> Job | None:
    """What this kernel was booted for; None on a machine's own kernel."""
    try:
        return job_from_text(Path(JOB_FILE).read_text())
    except FileNotFoundError:
        return None


def is_inside() -> bool:
    """Whether this is a user-mode kernel of ours."""
    return job() is not None


def in_virtual_time() -> bool:
    """Whether the clock here stands still while programs compute."""
    found = job()
    return found is not None and found.virtual_time


def ran_on() -> dict[str, str]:
    """For every result: which kernel, its version, and what that means for time."""
    found = job()
    if found is None:
        kernel, version, why = Kernel.NATIVE, platform.release(), ""
    else:
        kernel, version, why = Kernel(found.kernel), found.version, found.why
    return {"kernel": kernel.value, "version": version, "mode": MODES[kernel], "why": why}


def label() -> str:
    """The same for people, in one line."""
    found = ran_on()
    return f"kernel: {found['kernel']} ({found['mode']}), Linux {found['version']}"


def as_seen_here(path: str) -> str:
    """Where a file of the machine is seen, by its whole path there: over its /tmp lies one of this kernel's own.

    What lay in the machine's when the kernel was booted is seen in both; what came later, only here.
    """
    if is_inside() and path.startswith(f"{TEMPORARY}/") and not os.path.lexists(path):
        return f"{BELOW}{path.removeprefix(TEMPORARY)}"
    return path


class Relay:
    """Sends messages to whoever booted this kernel."""

    def __init__(self) -> None:
        self._line = os.open(CONTROL, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)

    def progress(self, kind: str, value: Any = None) -> None:
        """One step of a progress; `kind` is the name of a method of `testbed.progress.Progress`."""
        self.tell("progress", kind=kind, value=value)

    def tell(self, event: str, **values: Any) -> None:
        """Any message. ValueError if it is too long."""
        os.write(self._line, encode(event, **values))
