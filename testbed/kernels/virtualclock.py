"""The exact kernel's clock as seen from the host, and what to say when it stands still.

The kernel keeps a page of a file of the host up to date (its option `time-travel-page=`); reading it disturbs nothing
inside. Boots nothing, stops nothing: `SpinWatch` is pure.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

LAYOUT = struct.Struct("<QQQiI16s")
"""`struct time_travel_page` of the patch: magic, nanoseconds, system calls, the last one's number, pid, name."""

MAGIC = int.from_bytes(b"RadTime1", "little")
PAGE_BYTES = 4096
STILL_S = 60.0
"""Wall time after which a clock that has not moved counts as stopped by a program that spins."""

SYSCALLS = {
    0: "read",
    1: "write",
    7: "poll",
    9: "mmap",
    12: "brk",
    23: "select",
    24: "sched_yield",
    35: "nanosleep",
    44: "sendto",
    45: "recvfrom",
    46: "sendmsg",
    47: "recvmsg",
    59: "execve",
    61: "wait4",
    202: "futex",
    228: "clock_gettime",
    230: "clock_nanosleep",
    232: "epoll_wait",
    270: "pselect6",
    271: "ppoll",
    281: "epoll_pwait",
}
"""Names of those that waiting programs make, on x86_64; others are shown by their number."""


@dataclass(frozen=True)
class Reading:
    """Virtual seconds since the boot, system calls since then, and whose was the last one begun or ended."""

    time_s: float
    syscalls: int
    syscall: int
    pid: int
    command: str


class VirtualClock:
    """The page in a file, for the kernel to write and for us to read. `argument` goes to the kernel's command line."""

    def __init__(self, path: Path) -> None:
        """Makes the file, for this user alone."""
        self._path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.ftruncate(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)

    @property
    def argument(self) -> str:
        """What makes the kernel keep the page."""
        return f"time-travel-page={self._path}"

    def read(self) -> Reading | None:
        """Now; None before the kernel has begun."""
        magic, nanoseconds, syscalls, syscall, pid, name = LAYOUT.unpack(self._path.read_bytes()[: LAYOUT.size])
        if magic != MAGIC:
            return None
        command = name.split(b"\0", 1)[0].decode(errors="replace")
        return Reading(nanoseconds / 1e9, syscalls, syscall, pid, command)


class SpinWatch:
    """Tells when virtual time has not moved for `still_s` of wall time. Give it a reading every second or so."""

    def __init__(self, still_s: float = STILL_S) -> None:
        self._still_s = still_s
        self._stood_at_s: float | None = None
        self._since_s = 0.0
        self._seen: Counter[tuple[str, int, int]] = Counter()

    def look(self, wall_s: float, reading: Reading) -> str | None:
        """What stands in the way, for people, once it has stood there long enough; `wall_s` is the host's clock."""
        if reading.time_s != self._stood_at_s:
            self._stood_at_s, self._since_s = reading.time_s, wall_s
            self._seen.clear()
        self._seen[reading.command, reading.pid, reading.syscall] += 1
        if wall_s - self._since_s < self._still_s:
            return None
        return (
            f"virtual time has stood still at {reading.time_s:.6f} s for {wall_s - self._since_s:.0f} s of wall time: "
            f"{self._who()}"
        )

    def _who(self) -> str:
        seen = [
            f"{command} (pid {pid} inside), last system call {SYSCALLS.get(syscall, f'number {syscall}')}"
            for (command, pid, syscall), _ in self._seen.most_common(3)
        ]
        return f"a program computes without ever sleeping or asking the kernel: {'; '.join(seen)}"
