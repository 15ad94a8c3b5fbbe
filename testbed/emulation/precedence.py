"""Switches and controller go before everything else on the machine, as they would on machines of their own.

In user space ovs-vswitchd is one process among others: while workers compute, packets and BFD wait for their turn, and
the WAN stands still for tens of milliseconds. Such threads get real-time priority here; clocks that measure have more.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

POLICY = os.SCHED_RR
STEERING, FORWARDING, BESIDE_FORWARDING = 2, 3, 4
"""Real-time priorities: of the controller, of the thread that forwards, and of those that it must not hold up, BFD's
among them. Nobody else uses exactly these with this policy: that is how `restore` knows what it is to restore.
"""
_OURS = (STEERING, FORWARDING, BESIDE_FORWARDING)


def put_first(pid: int, first: int, others: int) -> str:
    """Give real-time priority to the first thread of a process and to all others; what they start inherits it.

    Why not, in words, if the machine does not allow it or somebody has set such a priority already; or nothing.
    """
    if os.sched_getscheduler(pid) not in (os.SCHED_OTHER, POLICY):
        return "it has a real-time priority of somebody else's"
    try:
        for thread in _threads(pid):
            priority = first if thread == pid else others
            with suppress(ProcessLookupError):
                os.sched_setscheduler(thread, POLICY, os.sched_param(priority))
    except PermissionError:
        restore(pid)
        return "the kernel does not allow real-time priorities here"
    return ""


def share_processor(pid: int, name: str) -> None:
    """Have threads whose names begin so run only while the first thread, which `put_first` has put first, sleeps.

    They get its priority and one processor with it. If it never slept, they would have their turn after
    sched_rr_timeslice_ms: 100 ms, unless somebody set that.
    """
    with suppress(ProcessLookupError):
        if os.sched_getscheduler(pid) != POLICY:
            return
        processor = {max(os.sched_getaffinity(pid))}
        for thread in _threads(pid):
            with suppress(ProcessLookupError):
                if thread == pid or _name(pid, thread).startswith(name):
                    os.sched_setscheduler(thread, POLICY, os.sched_getparam(pid))
                    os.sched_setaffinity(thread, processor)


def keep_off(pid: int, first: int) -> None:
    """Hold a process, and whatever it starts, to the processors that `first` has not got from `share_processor`.

    A worker that shares one with a thread of real-time priority stands still while that forwards, although another
    processor is free: the kernel moves it there only some milliseconds later.
    """
    if os.sched_getscheduler(first) == POLICY:
        others = os.sched_getaffinity(pid) - os.sched_getaffinity(first)
        if others:
            os.sched_setaffinity(pid, others)


def follow(pid: int, leader: int) -> None:
    """Hold a process, and whatever it starts, to the processors of another; 0: the calling thread."""
    with suppress(ProcessLookupError):
        os.sched_setaffinity(pid, os.sched_getaffinity(leader))


@contextmanager
def last(pid: int) -> Iterator[None]:
    """As long as the context lasts a process has what processor time nobody else wants; what it starts, too."""
    _set_policy(pid, os.SCHED_IDLE)
    try:
        yield
    finally:
        _set_policy(pid, os.SCHED_OTHER)


def _set_policy(pid: int, policy: int) -> None:
    for thread in _threads(pid):
        with suppress(ProcessLookupError):
            os.sched_setscheduler(thread, policy, os.sched_param(0))


def restore(pid: int) -> None:
    """Undo `put_first` and `share_processor`, whoever did it; a process that is gone needs nothing."""
    processors: set[int] = set()
    ours = []
    for thread in _threads(pid):
        with suppress(ProcessLookupError, PermissionError):
            processors |= os.sched_getaffinity(thread)
            if os.sched_getscheduler(thread) == POLICY and os.sched_getparam(thread).sched_priority in _OURS:
                ours.append(thread)
    for thread in ours:
        with suppress(ProcessLookupError, PermissionError):
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(thread, processors)


def _threads(pid: int) -> Iterator[int]:
    with suppress(FileNotFoundError):
        yield from [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]


def _name(pid: int, thread: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
