"""Keeps a worker process going: one that ends, or whose event loop is stuck, is started anew within moments.

A process of its own, outside the event loop that it watches, which does nothing but wait. The worker is forked from it
with everything imported and every port open, so that connections made meanwhile wait instead of being refused. It knows
nothing of what the worker does.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

LOG = logging.getLogger("controller")

GRACE_S = 2.0
"""How long a worker may take to end when it is told to."""

START_S = 60.0
"""How long a worker may take until its first sign of life."""

BREATH_S = 1.0
"""How long to wait before the next start when starts follow one another faster than this, several times."""
QUICK_STARTS = 3


@dataclass(frozen=True)
class Restart:
    """Why a worker was started anew. `at` is when its end was seen, in seconds of CLOCK_MONOTONIC."""

    at: float
    cause: str
    count: int


Work = Callable[[Callable[[], None], Restart | None], int]
"""What a worker does: (sign of life, why it was started anew) → exit code."""


class Watchdog:
    """Runs `work` in a process of its own until SIGTERM, SIGINT, or the end of the process that started this one."""

    def __init__(self, work: Work, silence_s: float, on_first_sign: Callable[[], None]) -> None:
        """A worker without a sign of life for `silence_s` is stuck. `on_first_sign` is called at the first of all."""
        self._work, self._silence_s, self._on_first_sign = work, silence_s, on_first_sign
        self._starter = os.pidfd_open(os.getppid())
        self._wake = wake_on_signals()

    def run(self) -> int:
        """Returns the exit code: 0 when told to end, the worker's own if it never got going."""
        restart: Restart | None = None
        quick = 0
        while True:
            started_at = time.monotonic()
            cause, code = self._run_once(restart)
            if cause is None:
                return code
            restart = Restart(time.monotonic(), cause, 1 + (restart.count if restart else 0))
            LOG.warning("restart count=%d cause=%s", restart.count, cause)
            quick = quick + 1 if restart.at - started_at < BREATH_S else 0
            if quick >= QUICK_STARTS and self._told_to_end(BREATH_S):
                return 0

    def _run_once(self, restart: Restart | None) -> tuple[str | None, int]:
        """Why the worker has to be started anew; None if everything is over, with the exit code."""
        signs, sign = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            os.close(signs)
            _be_worker(self._work, sign, restart, (self._starter, self._wake))
        os.close(sign)
        ended = os.pidfd_open(pid)
        try:
            return self._watch(pid, ended, signs, first_ever=restart is None)
        finally:
            os.close(ended)
            os.close(signs)

    def _watch(self, pid: int, ended: int, signs: int, first_ever: bool) -> tuple[str | None, int]:
        poll = select.poll()
        for descriptor in (ended, signs, self._starter, self._wake):
            poll.register(descriptor, select.POLLIN)
        alive, last_at = False, time.monotonic()
        while True:
            limit_s = self._silence_s if alive else START_S
            ready = {d for d, _ in poll.poll(max(0.0, last_at + limit_s - time.monotonic()) * 1000)}
            if ready & {self._starter, self._wake}:
                _end(pid, ended)
                return None, 0
            if signs in ready and _drain(signs):
                last_at = time.monotonic()
                if not alive and first_ever:
                    self._on_first_sign()
                alive = True
            elif ended in ready:
                cause, code = _ending(pid)
                return (cause, code) if alive or not first_ever else (None, code)
            elif signs in ready:
                poll.unregister(signs)
            elif time.monotonic() >= last_at + limit_s:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return f"no sign of life for {limit_s:g} s", 0

    def _told_to_end(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._starter, self._wake], [], [], timeout_s)
        return bool(ready)


def wake_on_signals() -> int:
    """A file descriptor that becomes readable when SIGTERM or SIGINT arrives, which an event loop can wait for."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return readable


def _be_worker(work: Work, sign: int, restart: Restart | None, inherited: tuple[int, ...]) -> None:
    """Never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for descriptor in inherited:
            os.close(descriptor)

        def _give_sign() -> None:
            with suppress(BlockingIOError):
                os.write(sign, b".")

        code = work(_give_sign, restart)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _drain(signs: int) -> bool:
    """Whether there was a sign; False at the end of the pipe too."""
    try:
        return bool(os.read(signs, 65536))
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise
        return False


def _ending(pid: int) -> tuple[str, int]:
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return (f"exit code {code}", code) if code >= 0 else (f"killed by {signal.Signals(-code).name}", 1)


def _end(pid: int, ended: int) -> None:
    os.kill(pid, signal.SIGTERM)
    ready, _, _ = select.select([ended], [], [], GRACE_S)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
