"""Inside a kernel in virtual time: makes runs alike in what came before them, so that they are alike from here on.

How long the set-up takes, and how many random numbers it draws, depends on the machine (on what lies in its /tmp, say).
So everybody waits for the same moment, and from there chance begins anew.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import time
from pathlib import Path

ALIKE_AT_S = 20.0
"""On the kernel's clock; the set-up before it takes less than a second."""

COMMAND_AT_S = 40.0
"""When the command starts: Open vSwitch counts the CPUs when it starts, wrongly here, and again 10 s later."""

TIMER_ABSTIME, PR_SET_TIMERSLACK = 1, 29
RESEED = 0x5207
"""RNDRESEEDCRNG of linux/random.h."""


class _Moment(ctypes.Structure):
    """struct timespec."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def begin_alike() -> None:
    """Wait for the moment, then have the kernel forget how many random numbers were drawn. OSError if it cannot."""
    wait_until(ALIKE_AT_S)
    with Path("/dev/urandom").open("rb") as source:
        fcntl.ioctl(source, RESEED)


def wait_until(at_s: float) -> None:
    """Until this moment of CLOCK_MONOTONIC, to the nanosecond: no other timer may stand in for this one."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    moment = _Moment(int(at_s), round(at_s % 1 * 1e9))
    while libc.clock_nanosleep(time.CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(moment), None) == errno.EINTR:
        pass
    libc.prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0)
