"""Processes of a run: started with a log file each, written down, watched, and ended for certain.

A process is known by its pid and the time it started, or by the mark that it and all its children inherit.
Waiting is done on pidfds: nothing here polls. See pidfd_open(2).
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.emulation.plan import name_prefix
from testbed.emulation.state import STATE_ROOT, is_alive, is_stopped, start_ticks
from topologies import RingroadError

RECORD_FILE = "processes.jsonl"
RUN_MARK = "RINGROAD_RUN"
"""Environment variable of every process of a run and its children: the run id. A mark for cleaning up, no setting."""

QUOTED_LINES = 15
QUOTED_COLUMNS = 400
GRACE_S = 2.0


@dataclass(frozen=True)
class Process:
    """One process that a run depends on or has started. `log` is the file it writes to, if any."""

    name: str
    pid: int
    start_ticks: int
    log: Path | None = None

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return is_alive(self.pid, self.start_ticks)

    @property
    def stopped(self) -> bool:
        """Whether somebody has stopped it (SIGSTOP, a debugger): it lives and does nothing."""
        return self.alive and is_stopped(self.pid)


class ProcessDied(RingroadError):
    """A process that the run depends on has ended. Names it and quotes the end of its log."""

    exit_code = 4

    def __init__(self, process: Process, status: str = "") -> None:
        quoted = end_of_log(process.log)
        # What is in the state folder goes with the run: nobody can look at it afterwards.
        stays = bool(quoted) and process.log is not None and not process.log.is_relative_to(STATE_ROOT)
        message = f"{process.name} (pid {process.pid}) has died{f', {status}' if status else ''}"
        if quoted:
            place = process.log if stays else "its log"
            message += f"; the end of {place}:\n" + "\n".join(f"    {line}" for line in quoted)
        look = "look at the log, then " if stays else ""
        super().__init__(message, f"results so far are kept; {look}start the run again")
        self.process = process


class ProcessStopped(ProcessDied):
    """A process that the run depends on does not run on: somebody has stopped it."""

    def __init__(self, process: Process) -> None:
        message = f"{process.name} (pid {process.pid}) does nothing: it has been stopped, as by SIGSTOP or a debugger"
        RingroadError.__init__(self, message, "results so far are kept; see who stops it, then start the run again")
        self.process = process


def end_of_log(log: Path | None, lines: int = QUOTED_LINES) -> list[str]:
    """The last lines of a log file, fit to be quoted: none is longer than `QUOTED_COLUMNS`, and none moves the cursor.

    None if it cannot be read.
    """
    if log is None:
        return []
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 64 * 1024))
            return [_quotable(line) for line in file.read().decode(errors="replace").splitlines()[-lines:]]
    except OSError:
        return []


def _quotable(line: str) -> str:
    plain = "".join(sign if sign.isprintable() else "\ufffd" for sign in line.expandtabs()[-2 * QUOTED_COLUMNS :])
    return plain if len(plain) <= QUOTED_COLUMNS else "… " + plain[-QUOTED_COLUMNS:]


def marked_environment(run_id: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment that says which run a process belongs to."""
    return {**(os.environ if environment is None else environment), RUN_MARK: run_id}


def marked_pids(run_id: str) -> list[int]:
    """Every process that carries the mark of a run, but for this one."""
    return pids_with(RUN_MARK, run_id)


def pids_with(variable: str, value: str) -> list[int]:
    """Every process that was started with this in its environment, but for this one: whatever session it is in."""
    mark = f"{variable}={value}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def inhabitants(run_id: str, folder: Path) -> list[int]:
    """Every process in the network namespace of a host of the run, marked or not: sudo and `env -i` take marks off.

    `folder` is the run's state folder, which knows its hosts; those that run say which namespaces are theirs.
    """
    hosts = re.compile(rf"{name_prefix(run_id)}h\d+")
    there = [each.pid for each in recorded(folder) if hosts.fullmatch(each.name) and each.alive]
    # A host has a namespace of its own; should that not be so, nobody is touched.
    ours = {_network_namespace(pid) for pid in there} - {_network_namespace(pid) for pid in (1, os.getpid())} - {None}
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()] if ours else []
    return [pid for pid in pids if pid != os.getpid() and _network_namespace(pid) in ours]


def _network_namespace(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/net").readlink()
    except OSError:
        return None


class Ledger:
    """Starts the processes of a run and writes each into the state folder, so that a later clean-up knows them."""

    def __init__(self, run_id: str, folder: Path) -> None:
        self.run_id = run_id
        self._file = folder / RECORD_FILE
        self._started: list[tuple[Process, subprocess.Popen[bytes]]] = []
        self._lock = threading.Lock()

    def record(self, name: str, pid: int, log: Path | None = None) -> Process:
        """Write down a process that runs."""
        process = Process(name, pid, start_ticks(pid) or 0, log)
        line = json.dumps({**asdict(process), "log": str(log) if log else None}) + "\n"
        with self._lock, self._file.open("a") as file:
            file.write(line)
        return process

    def start(
        self, name: str, arguments: Sequence[str], log: Path | None, **options: Any
    ) -> tuple[Process, subprocess.Popen[bytes]]:
        """Start a process in a session of its own. What it writes goes to `log` unless `options` say otherwise.

        `options` are those of `subprocess.Popen`. RingroadError if it cannot be started.
        """
        options.setdefault("stdin", subprocess.DEVNULL)
        options["env"] = marked_environment(self.run_id, options.get("env"))
        with open(log or os.devnull, "ab") as sink:  # noqa: PTH123 (devnull is no path of ours)
            options.setdefault("stdout", sink)
            options.setdefault("stderr", sink)
            try:
                popen = subprocess.Popen(list(map(str, arguments)), start_new_session=True, **options)
            except OSError as error:
                raise RingroadError(f"cannot start {name}: {error}") from error
        process = self.record(name, popen.pid, log)
        with self._lock:
            self._started.append((process, popen))
        return process, popen

    def end_all(self) -> None:
        """End all that was started, that carries the mark or is in a host of the run; returns when it is gone."""
        with self._lock:
            started, self._started = self._started, []
        running = [popen.pid for _, popen in started if popen.poll() is None]
        end({*running, *marked_pids(self.run_id), *inhabitants(self.run_id, self._file.parent)})
        for _, popen in started:
            popen.wait()


def recorded(folder: Path) -> list[Process]:
    """What a run has written down; a line that was cut off by its end is left out."""
    found = []
    with suppress(OSError):
        for line in (folder / RECORD_FILE).read_text().splitlines():
            with suppress(ValueError, TypeError, KeyError):
                plain = json.loads(line)
                log = Path(plain["log"]) if plain["log"] else None
                found.append(Process(plain["name"], plain["pid"], plain["start_ticks"], log))
    return found


def end(pids: Iterable[int], grace_s: float = GRACE_S) -> list[int]:
    """SIGTERM (and SIGHUP, for interactive shells), then SIGKILL to what is left after `grace_s`. Pids that were there.

    Returns when all have ended; a child of this process may still have to be reaped.
    """
    descriptors = {}
    for pid in pids:
        with suppress(ProcessLookupError):
            descriptors[os.pidfd_open(pid)] = pid
    there = list(descriptors.values())
    try:
        _signal(descriptors, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT)
        left = _wait(set(descriptors), grace_s)
        _signal(left, signal.SIGKILL)
        _wait(left, grace_s)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return there


def _signal(descriptors: Iterable[int], *numbers: signal.Signals) -> None:
    for descriptor in descriptors:
        for number in numbers:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)


def _wait(descriptors: set[int], timeout_s: float) -> set[int]:
    """Those that have not ended within the time."""
    deadline = time.monotonic() + timeout_s
    left = set(descriptors)
    poll = select.poll()
    for descriptor in left:
        poll.register(descriptor, select.POLLIN)
    while left and (remaining_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(remaining_s * 1000):
            poll.unregister(descriptor)
            left.discard(descriptor)
    return left


class Watch:
    """Watches processes that a run depends on. `fileno` becomes readable as soon as one of them has ended.

    With `on_death` a thread waits and calls it, once, with the first `ProcessDied`.
    """

    def __init__(
        self, processes: Iterable[Process] = (), on_death: Callable[[ProcessDied], None] | None = None
    ) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Process] = {}
        self._dead: ProcessDied | None = None
        self._lock = threading.Lock()
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        for process in processes:
            self.add(process)
        self._thread = None
        if on_death is not None:
            self._thread = threading.Thread(target=self._wait, args=(on_death,), name="watch", daemon=True)
            self._thread.start()

    def add(self, process: Process) -> None:
        """Watch one more. If it has ended already, that counts at once."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            descriptor = -1
        if not process.alive:
            if descriptor >= 0:
                os.close(descriptor)
            descriptor = os.eventfd(1, os.EFD_CLOEXEC)
        with self._lock:
            self._watched[descriptor] = process
            self._epoll.register(descriptor, select.EPOLLIN)

    def remove(self, process: Process) -> None:
        """Watch it no more: it is going to be ended on purpose."""
        with self._lock:
            for descriptor, watched in list(self._watched.items()):
                if watched == process:
                    self._epoll.unregister(descriptor)
                    os.close(descriptor)
                    del self._watched[descriptor]

    def dead(self) -> ProcessDied | None:
        """The first death, or None while all live. Never blocks."""
        with self._lock:
            if self._dead is None and not self._epoll.closed:
                for descriptor, _ in self._epoll.poll(0, 1):
                    self._dead = ProcessDied(self._watched[descriptor])
            return self._dead

    def stopped(self) -> ProcessStopped | None:
        """The first that somebody has stopped, or None. No event tells of it: for when something took too long."""
        with self._lock:
            watched = list(self._watched.values())
        return next((ProcessStopped(process) for process in watched if process.stopped), None)

    def check(self) -> None:
        """Raise ProcessDied if one has ended."""
        if (dead := self.dead()) is not None:
            raise dead

    def fileno(self) -> int:
        """For select and poll: readable when one has ended."""
        return self._epoll.fileno()

    def close(self) -> None:
        """Watch nothing any more."""
        os.eventfd_write(self._stop, 1)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            for descriptor in (*self._watched, self._stop):
                os.close(descriptor)
            self._watched.clear()
            self._epoll.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, on_death: Callable[[ProcessDied], None]) -> None:
        poll = select.poll()
        poll.register(self._epoll.fileno(), select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if self._stop in ready:
                return
            if (dead := self.dead()) is not None:
                on_death(dead)
                return
