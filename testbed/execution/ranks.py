"""The processes of a person's program in their DCs: started together, waited for, ended together, however they end.

Waits on pidfds (pidfd_open(2)). A process that fails has a grace period in which the others may end by themselves.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from testbed.emulation.processes import end, end_of_log
from testbed.execution.environment import Place
from testbed.execution.output import Pump, Terminal
from topologies.errors import RingroadError

STILL_WRITTEN_S = 2.0
"""How long to wait for what a process that has ended wrote last."""

QUOTED_LINES = 15


class Host(Protocol):
    """Where processes are started: see `testbed.emulation.dc.Dc`."""

    def popen(self, args: Sequence[str], **options: object) -> subprocess.Popen[bytes]:
        """Start a program in it."""


@dataclass(frozen=True)
class RankEnd:
    """How one process ended. `returncode` is as in `subprocess`: below zero, the signal that killed it.

    `by_us`: it was told to, because of another one or because its time was over. `ended_at`: s of CLOCK_MONOTONIC.
    """

    place: Place
    returncode: int
    ended_at: float
    by_us: bool
    log: Path

    @property
    def exit_code(self) -> int:
        """As a shell has it: 128 + the number of a signal."""
        return self.returncode if self.returncode >= 0 else 128 - self.returncode

    @property
    def how(self) -> str:
        """`exit code 3`, `killed by SIGKILL`: for people."""
        if self.returncode >= 0:
            return f"exit code {self.returncode}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-self.returncode).name}"
        return f"killed by signal {-self.returncode}"


class RankFailed(RingroadError):
    """Processes of the program failed. Names the first, its DC, how it ended, and quotes the end of what it wrote."""

    def __init__(self, ends: Sequence[RankEnd]) -> None:
        own = [each for each in ends if each.returncode != 0 and not each.by_us]
        first = min(own, key=lambda each: each.ended_at)
        message = f"{first.place.name} ended first: {first.how}"
        others = [f"{each.place.name}: {each.how}" for each in own if each is not first]
        if others:
            message += f"; then {', '.join(others)}"
        told = [each.place.name for each in ends if each.by_us]
        if told:
            message += f"; {', '.join(told)} had to be ended"
        message += _quoted(first.log)
        super().__init__(message, _remedy(first))
        self.exit_code = worst_exit_code(ends)


class OutOfTime(RingroadError):
    """The program was not done in time."""


def worst_exit_code(ends: Sequence[RankEnd]) -> int:
    """The highest exit code of those that ended by themselves; of all, if every one had to be ended."""
    own = [each.exit_code for each in ends if not each.by_us]
    return max(own or [each.exit_code for each in ends], default=0)


def _quoted(log: Path) -> str:
    lines = end_of_log(log, QUOTED_LINES)
    return f"; the end of {log}:\n" + "\n".join(f"    {line}" for line in lines) if lines else f"; {log} is empty"


def _remedy(first: RankEnd) -> str:
    if first.returncode == -signal.SIGABRT and "terminate called" in "\n".join(end_of_log(first.log)):
        return (
            "gloo's threads were running when the interpreter ended: call dist.destroy_process_group() last; where it "
            "still aborts, leave with os._exit(0) after it. What it printed may be right; the rank counts as failed"
        )
    return "the outputs of all ranks are kept in the run folder"


class Ranks:
    """The processes of one program. But for `stop` and `pids_in`, for one thread: they end when it does."""

    def __init__(self, places: Sequence[Place], logs: Path, terminal: Terminal, grace_s: float) -> None:
        self.ends: list[RankEnd] = []
        self._places, self._logs, self._terminal, self._grace_s = places, logs, terminal, grace_s
        self._processes: dict[int, tuple[Place, subprocess.Popen[bytes]]] = {}
        self._pumps: list[Pump] = []
        self._stopping = False
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def log_of(self, place: Place) -> Path:
        """The file with all that the process of that place wrote."""
        return self._logs / f"rank{place.rank}.log"

    def start(
        self,
        host: Callable[[str], Host],
        command: Sequence[str],
        environment: Callable[[Place], Mapping[str, str]],
        failed: Callable[[OSError], None],
    ) -> None:
        """Start all. They end when this thread does, whatever ends it; `failed` is told when a file is full."""
        for place in self._places:
            process = host(place.dc).popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                env=dict(environment(place)),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            assert process.stdout is not None
            self._processes[os.pidfd_open(process.pid)] = (place, process)
            self._pumps.append(Pump(process.stdout, self.log_of(place), place.prefix, self._terminal, failed))

    def stop(self) -> None:
        """From any thread: `wait` returns soon."""
        os.eventfd_write(self._stop, 1)

    def wait(self, others: int, until: float) -> bool:
        """Block until all have ended, which is True; False: at `until`, after `stop`, or when `others` is readable.

        When one fails by itself, the rest are ended after the grace period. Times in s of CLOCK_MONOTONIC.
        """
        poll = select.poll()
        for descriptor in (*self._processes, self._stop, others):
            poll.register(descriptor, select.POLLIN)
        rest_until = until
        while self._processes:
            ready = {descriptor for descriptor, _ in poll.poll(max(0.0, rest_until - time.monotonic()) * 1000)}
            for descriptor in ready & set(self._processes):
                poll.unregister(descriptor)
                if self._reap(descriptor) != 0 and rest_until == until:
                    rest_until = min(until, time.monotonic() + self._grace_s)
            if not self._processes:
                break
            if ready & {self._stop, others} or time.monotonic() >= until:
                return False
            if time.monotonic() >= rest_until:
                self.end()
        return True

    def signal(self, number: int) -> None:
        """Send it to every process that runs, and to what each has started in its session's first group."""
        for _, process in self._processes.values():
            _signal_group(process.pid, number)

    def pass_on(self, number: int) -> None:
        """The signal that this program got: the processes have the grace period to heed it, then they are ended."""
        self._stopping = True
        self.signal(number)
        until = time.monotonic() + self._grace_s
        poll = select.poll()
        for descriptor in self._processes:
            poll.register(descriptor, select.POLLIN)
        while self._processes and (left_s := until - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left_s * 1000):
                poll.unregister(descriptor)
                self._reap(descriptor)

    def end(self) -> None:
        """End all that run: told first, then killed. Returns when all have ended and what they wrote is kept."""
        self._stopping = True
        end([process.pid for _, process in self._processes.values()])
        for descriptor in list(self._processes):
            self._reap(descriptor)

    def pids_in(self, dc: str) -> list[int]:
        """Of the processes in a DC that run."""
        return [process.pid for place, process in list(self._processes.values()) if place.dc == dc]

    def close(self) -> None:
        """After `end`: wait for what was written last, whoever else may hold an output open."""
        until = time.monotonic() + STILL_WRITTEN_S
        for pump in self._pumps:
            pump.finished(max(0.0, until - time.monotonic()))
        os.close(self._stop)

    def _reap(self, descriptor: int) -> int:
        place, process = self._processes.pop(descriptor)
        _signal_group(
            process.pid, signal.SIGKILL
        )  # What it has started and left; its id is its own until it is reaped.
        returncode = process.wait()
        os.close(descriptor)
        self.ends.append(RankEnd(place, returncode, time.monotonic(), self._stopping, self.log_of(place)))
        return returncode


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
