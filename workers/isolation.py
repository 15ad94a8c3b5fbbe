"""What the kernel does for a rank: puts it into its DC's network namespace, ends it when the launcher ends."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

from topologies.errors import RingroadError

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when the thread that forked it ends. Ends at once if `parent` is gone already."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


def enter_network_of(pid: int) -> None:
    """Move the calling thread into the network namespace of process `pid`, and to its processors.

    RingroadError if that cannot be done.
    """
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RingroadError(f"the DC's process {pid} is not there: {error.strerror}", "is the testbed up?") from error
    try:
        if _libc.setns(namespace, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise RingroadError(f"cannot enter the network of process {pid}: {os.strerror(code)}", "run as root")
        with suppress(ProcessLookupError):
            os.sched_setaffinity(0, os.sched_getaffinity(pid))
    finally:
        os.close(namespace)
