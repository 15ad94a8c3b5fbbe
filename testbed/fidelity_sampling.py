"""Watches how much of the CPUs is idle while something runs: one line of /proc/stat a second, no more.

Only measures; `fidelity` judges.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from testbed.fidelity import CpuSample

PROC_STAT = Path("/proc/stat")
PERIOD_S = 1.0
SHORTEST_S = 0.2
"""The kernel counts in ticks of 10 ms: a shorter rest at the end would be noise, and is left out."""


class CpuSampler:
    """Context manager; `samples` holds one sample per second, complete once the context has ended."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self.samples: list[CpuSample] = []
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cpu-sampler", daemon=True)

    def __enter__(self) -> CpuSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        since, before = time.monotonic(), cpu_ticks(PROC_STAT.read_text())
        stopped = False
        while not stopped:
            stopped = self._stop.wait(self._period_s)
            until, after = time.monotonic(), cpu_ticks(PROC_STAT.read_text())
            total = after[1] - before[1]
            if total > 0 and (not stopped or until - since >= SHORTEST_S or not self.samples):
                self.samples.append(CpuSample(since, until, (after[0] - before[0]) / total))
            since, before = until, after


def cpu_ticks(stat: str) -> tuple[int, int]:
    """(idle, total) ticks of all CPUs together since boot, from the text of /proc/stat (proc(5)).

    Waiting for I/O is idle; time stolen by a hypervisor is not: nothing could run. Guest time is in user time already.
    """
    ticks = [int(word) for word in stat.split("\n", 1)[0].split()[1:9]]
    user, nice, system, idle, iowait, *rest = ticks
    return idle + iowait, user + nice + system + idle + iowait + sum(rest)
