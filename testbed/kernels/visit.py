"""A program in another kernel as if it ran here: its output, its input, its signals, its terminal, its exit status.

The other end is `programs`. Imports nothing heavy: `ringroad sh` is there in a moment.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import sys
import termios
import tty
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from testbed.kernels.channel import Lines
from topologies import wire
from topologies.errors import RingroadError

SOCKET = "programs.sock"
"""In the state folder of a testbed that runs in another kernel; not there where it runs in this one."""

PIECE_BYTES = 16 * 1024
UNDER_WAY_BYTES = 64 * 1024
"""Input that the program has not read yet."""

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

Sink = Callable[[bytes], None]


class Visit:
    """One program. RingroadError if it cannot be reached, or ends without saying how."""

    def __init__(self, path: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """`path` is the socket; the program starts in this process's folder."""
        self._command, self._environment = list(command), dict(environment)
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connection.connect(os.fspath(path))
        except OSError as error:
            self._connection.close()
            raise RingroadError(f"nobody answers at {path}: {error.strerror or error}", "ringroad status") from error
        self._received = Lines()
        self._to_tell: deque[dict[str, Any]] = deque()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._under_way = 0
        self._status: int | None = None

    def signal(self, number: int) -> None:
        """From any thread, and from a signal handler: the program gets this signal."""
        self._tell_later({"event": "signal", "number": int(number)})

    def carry(self, source: int | None, output: Sink, errors: Sink, window: Sequence[int] | None = None) -> int:
        """Until it has ended; its exit status, as a shell would give it. It reads what `source` has (None: nothing).

        With a `window` (rows, columns) it has a terminal of that size, and `errors` gets nothing.
        """
        start = {
            "event": "start",
            "command": self._command,
            "environment": self._environment,
            "folder": str(Path.cwd()),
        }
        wire.send(self._connection, {**start, "window": window})
        sinks = {"output": output, "errors": errors}
        # Not epoll, which takes no file of a disk.
        with selectors.PollSelector() as selector:
            for descriptor in (self._connection.fileno(), self._wake):
                selector.register(descriptor, selectors.EVENT_READ)
            if source is None:
                self._tell_later({"event": "input_end"})
            while self._status is None:
                if source is not None and source not in selector.get_map() and self._under_way < UNDER_WAY_BYTES:
                    selector.register(source, selectors.EVENT_READ)
                for key, _ in selector.select():
                    if key.fd == source:
                        selector.unregister(source)
                        source = source if self._put_in(source) else None
                    elif key.fd == self._wake:
                        self._tell_all()
                    else:
                        self._hear(sinks)
        return self._status

    def close(self) -> None:
        """The program is hung up on, if it has not ended."""
        self._connection.close()
        os.close(self._wake)

    def resized(self, rows: int, columns: int) -> None:
        """As `signal`: its terminal has another size."""
        self._tell_later({"event": "window", "size": [rows, columns]})

    def _tell_later(self, message: dict[str, Any]) -> None:
        self._to_tell.append(message)
        os.eventfd_write(self._wake, 1)

    def _tell_all(self) -> None:
        os.eventfd_read(self._wake)
        while self._to_tell:
            self._tell(self._to_tell.popleft())

    def _put_in(self, source: int) -> bool:
        """Some input; False at its end."""
        piece = os.read(source, PIECE_BYTES)
        if not piece:
            self._tell({"event": "input_end"})
            return False
        self._under_way += len(piece)
        return self._tell({"event": "input", "data": b64encode(piece).decode()})

    def _tell(self, message: dict[str, Any]) -> bool:
        """Whether anybody heard it. A program that has ended says so before it hangs up: that is still to be read."""
        try:
            wire.send(self._connection, message)
        except wire.ConnectionLost:
            return False
        return True

    def _hear(self, sinks: dict[str, Sink]) -> None:
        try:
            piece = self._connection.recv(65536)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise RingroadError("the program's kernel is gone", "ringroad status says more")
        for message in self._received.messages(piece):
            event = message["event"]
            if event in sinks:
                sinks[event](b64decode(message["data"]))
            elif event == "taken":
                self._under_way -= message["count"]
            elif event == "exit":
                self._status = message["status"]
            elif event == "refused":
                raise RingroadError(message["message"])

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def signals_passed_on(visit: Visit, numbers: Mapping[int, int]) -> Iterator[None]:
    """Inside, each signal that comes here goes to the program, as another where `numbers` says so."""
    before = {number: signal.getsignal(number) for number in numbers}
    for number, passed in numbers.items():
        signal.signal(number, lambda *_, passed=passed: visit.signal(passed))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def carry_here(path: Path, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """With this process's own input and output, and its terminal if both are one; the exit status."""
    with Visit(path, command, environment) as visit, signals_passed_on(visit, {each: each for each in FORWARDED}):
        output, errors = _writer(sys.stdout.fileno()), _writer(sys.stderr.fileno())
        source = _source()
        if source is None or not (os.isatty(source) and sys.stdout.isatty()):
            try:
                return visit.carry(source, output, errors)
            except BrokenPipeError:  # Nobody reads on: what a program here would end of.
                return 128 + signal.SIGPIPE
        signal.signal(signal.SIGWINCH, lambda *_: visit.resized(*_window()))
        before = termios.tcgetattr(sys.stdin)
        try:
            tty.setraw(sys.stdin)
            return visit.carry(source, output, errors, _window())
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)


def _source() -> int | None:
    """Standard input, unless there is none or it is a terminal that others have: in the background nothing is read."""
    if sys.stdin is None:
        return None
    source = sys.stdin.fileno()
    with suppress(OSError):  # no terminal, or none that has a foreground: whoever opened it for us wants it read
        if os.tcgetpgrp(source) not in (0, os.getpgrp()):
            return None
    return source


def _window() -> tuple[int, int]:
    size = shutil.get_terminal_size()
    return size.lines, size.columns


def _writer(descriptor: int) -> Sink:
    def write(piece: bytes) -> None:
        while piece:
            piece = piece[os.write(descriptor, piece) :]

    return write
