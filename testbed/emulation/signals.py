"""Work that must not be cut short by Ctrl-C: the signal is noted and acts when the work is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Hold back signals that have a handler in this program; deliver them at the end. Only the main thread gets any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    handled = {number: handler for number in DEFERRED if callable(handler := signal.getsignal(number))}

    def note(number: int, _: FrameType | None) -> None:
        arrived.append(number)

    for number in handled:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(arrived):
            signal.raise_signal(number)
