"""The first process inside a user-mode kernel: sets it up, runs one command, says how it ended, switches off.

What the command writes goes to two serial lines, unchanged. A third one carries messages both ways: see `channel`.
It also does what the first process of any system has to: it reaps what has lost its parent.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import termios
import time
import traceback
import tty
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.kernels import alike
from testbed.kernels import guestsystem as system
from testbed.kernels.channel import CONTROL, JOB_FILE, STDERR, STDOUT, Job, Lines, encode, job_from_text

ALIVE_EVERY_S = 5.0
"""How often it says that it lives."""

FAILED_STATUS = 125
"""Of a command that could not even be started."""


class Guest:
    """The one command of this kernel and the lines to the machine."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._control = _open_line(CONTROL)
        self._selector = selectors.DefaultSelector()
        self._received = Lines()
        self._status: int | None = None

    def run(self) -> int:
        """Start the command and serve it to its end; its exit status, as a shell would give it."""
        wakeup, wakeup_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup_writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._child = subprocess.Popen(
            self._job.command,
            cwd=self._job.folder,
            env=dict(self._job.environment) | {"TMPDIR": system.TEMPORARY, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._child.stdout is not None and self._child.stderr is not None
        lines = {self._child.stdout.fileno(): _open_line(STDOUT), self._child.stderr.fileno(): _open_line(STDERR)}
        self._lines = lines
        for source in lines:
            os.set_blocking(source, False)
        for source in (*lines, wakeup, self._control):
            self._selector.register(source, selectors.EVENT_READ)
        alive_at = time.monotonic() + ALIVE_EVERY_S
        while self._status is None:
            for key, _ in self._selector.select(max(0.0, alive_at - time.monotonic())):
                self._serve(key.fd, wakeup)
            if time.monotonic() >= alive_at:
                alive_at += ALIVE_EVERY_S
                self.tell("alive", now=time.monotonic())
        for source in lines:
            while self._pass_on(source):
                pass
        for line in lines.values():
            _drain(line)
        return self._status

    def tell(self, event: str, **values: Any) -> None:
        """Send a message out, whole."""
        _write(self._control, encode(event, **values))

    def end(self, status: int) -> None:
        """Say how it ended, and switch off."""
        self.tell("exit", status=status)
        _drain(self._control)
        system.power_off()

    def _serve(self, source: int, wakeup: int) -> None:
        if source == wakeup:
            with suppress(BlockingIOError):
                os.read(wakeup, 4096)
            self._reap()
        elif source == self._control:
            for message in self._received.messages(_read(source)):
                if message["event"] == "signal":
                    with suppress(ProcessLookupError):
                        os.kill(self._child.pid, message["number"])
        elif not self._pass_on(source):
            self._selector.unregister(source)

    def _pass_on(self, source: int) -> bool:
        """Hand on what the command has written by now; False at the end of it, or if there is nothing."""
        piece = _read(source)
        _write(self._lines[source], piece)
        return piece != b""

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child.pid:
                code = os.waitstatus_to_exitcode(status)
                self._status = code if code >= 0 else 128 - code


def set_up(job: Job) -> None:
    """From the bare kernel to one that the command can run on."""
    system.mount_everything()
    Path(JOB_FILE).write_text(job.encode())
    for folder in job.writable:
        system.mount_writable(folder)
    Path("/proc/sys/kernel/hostname").write_text("localhost")
    if job.epoch_s is not None:
        time.clock_settime(time.CLOCK_REALTIME, job.epoch_s)
    os.environ.update(job.environment)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if job.modules is not None:
        system.load_modules(job.modules)
    if job.virtual_time:
        alike.begin_alike()
    system.start_open_vswitch(first=not job.virtual_time)
    if job.virtual_time:
        alike.wait_until(alike.COMMAND_AT_S)


def _open_line(path: str) -> int:
    line = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    tty.setraw(line, termios.TCSANOW)  # what was written before it was opened stays
    return line


def _read(source: int) -> bytes:
    try:
        return os.read(source, 65536)
    except BlockingIOError:
        return b""


def _write(target: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(target, piece) :]


def _drain(line: int) -> None:
    termios.tcdrain(line)


def main(job_file: str) -> None:
    """Never returns: the kernel is off at the end, whatever happens."""
    try:
        job = job_from_text(Path(job_file).read_text())
        set_up(job)
        guest = Guest(job)
        guest.tell("up", now=time.monotonic())
        guest.end(guest.run())
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    system.power_off()


if __name__ == "__main__":
    main(sys.argv[1])
