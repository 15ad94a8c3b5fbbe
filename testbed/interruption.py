"""A run that is told to end cleans up first: the first signal becomes an exception, later ones change nothing.

SIGINT, SIGTERM, SIGHUP and SIGQUIT alike; one that the caller ignores (as nohup does with SIGHUP) stays ignored.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
INTERRUPTED_EXIT_CODE = 130


class Interrupted(KeyboardInterrupt):
    """A signal said to end. A KeyboardInterrupt, so that nothing takes it for an error to recover from."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, the first signal raises Interrupted in the main thread. Only the main thread may enter."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    heeded = [number for number, handler in before.items() if handler is not signal.SIG_IGN]

    def first(number: int, _: FrameType | None) -> None:
        for each in heeded:
            signal.signal(each, later)
        raise Interrupted(signal.Signals(number).name)

    def later(number: int, _: FrameType | None) -> None:
        sys.stderr.write("ringroad: cleaning up; it takes a few seconds\n")

    for number in heeded:
        signal.signal(number, first)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])
