"""Inside a user-mode kernel: runs programs for somebody outside, with a terminal if he has one.

JSON lines over a connection. From outside: `start`, then `input`, `input_end`, `window`, `signal`; to the outside:
`output`, `errors`, `taken` (of the input), `exit`, or `refused`. A connection that closes is a terminal that hangs up.
"""

from __future__ import annotations

import fcntl
import os
import pty
import selectors
import signal
import socket
import struct
import subprocess
import termios
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.kernels.channel import Lines
from testbed.kernels.inside import as_seen_here
from topologies import wire
from topologies.errors import RingroadError

PIECE_BYTES = 16 * 1024
LAST_PIECES = 8
"""What a pipe or a terminal may still hold when the program has ended: 64 KiB, and some more."""
GRACE_S = 2.0


def connect() -> socket.socket:
    """A connection whose other end runs one program."""
    ours, theirs = socket.socketpair()
    threading.Thread(target=_serve, args=(ours,), name="program", daemon=True).start()
    return theirs


def _serve(connection: socket.socket) -> None:
    session = Session(connection)
    try:
        session.run()
    except (OSError, RingroadError):
        pass  # The connection is gone, and with it whoever could be told.
    finally:
        session.close()


class Session:
    """One program. `run` blocks until it has ended, or the other side is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = Lines()
        self._selector = selectors.DefaultSelector()
        self._process: subprocess.Popen[bytes] | None = None
        self._outputs: dict[int, str] = {}
        self._input: int | None = None
        self._terminal: int | None = None
        self._ending: int | None = None
        self._pending = bytearray()
        self._input_ended = False
        self._over = False

    def run(self) -> None:
        """OSError or WireError if the connection is lost."""
        self._watch(self._connection.fileno(), self._hear)
        while not self._over:
            for key, _ in self._selector.select():
                if not self._over:
                    key.data()

    def close(self) -> None:
        """Everything that is left; the program is hung up on if it has not ended."""
        self._selector.close()
        for descriptor in (self._input, self._ending, *self._outputs):
            if descriptor is not None:
                os.close(descriptor)
        self._connection.close()
        if self._process is not None and self._process.poll() is None:
            _hang_up(self._process)

    def _watch(self, descriptor: int, act: Callable[[], None], events: int = selectors.EVENT_READ) -> None:
        self._selector.register(descriptor, events, act)

    def _tell(self, event: str, **values: Any) -> None:
        wire.send(self._connection, {"event": event, **values})

    def _hear(self) -> None:
        piece = self._connection.recv(65536)
        if not piece:
            self._over = True
        for message in self._received.messages(piece):
            event = message["event"]
            if event == "start" and self._process is None:
                self._start(message)
            elif event == "input":
                self._pending += b64decode(message["data"])
                self._put_input()
            elif event == "input_end":
                self._input_ended = True
                self._put_input()
            elif event == "window" and self._terminal is not None:
                _set_window(self._terminal, message["size"])
            elif event == "signal" and self._process is not None and self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, message["number"])

    def _start(self, asked: dict[str, Any]) -> None:
        folder = as_seen_here(asked["folder"])
        options = {"cwd": folder if Path(folder).is_dir() else "/", "env": asked["environment"]}
        try:
            if asked.get("window"):
                self._in_terminal(asked["command"], asked["window"], options)
            else:
                self._with_pipes(asked["command"], options)
        except OSError as error:
            self._tell("refused", message=f"{asked['command'][0]}: {error.strerror or error}")
            self._over = True
            return
        assert self._process is not None
        assert self._input is not None
        os.set_blocking(self._input, False)
        for output in self._outputs:
            os.set_blocking(output, False)
            self._watch(output, lambda output=output: self._pass_on(output))
        self._ending = os.pidfd_open(self._process.pid)
        self._watch(self._ending, self._ended)

    def _in_terminal(self, command: list[str], window: list[int], options: dict[str, Any]) -> None:
        ours, theirs = pty.openpty()
        self._terminal, self._input, self._outputs = ours, os.dup(ours), {ours: "output"}
        try:
            _set_window(ours, window)
            self._process = subprocess.Popen(
                ["setsid", "--ctty", *command], stdin=theirs, stdout=theirs, stderr=theirs, **options
            )
        finally:
            os.close(theirs)

    def _with_pipes(self, command: list[str], options: dict[str, Any]) -> None:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, **options)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        # Copies of our own: the objects close theirs whenever they are collected.
        self._input, *outputs = (os.dup(each.fileno()) for each in (process.stdin, process.stdout, process.stderr))
        for each in (process.stdin, process.stdout, process.stderr):
            each.close()
        self._outputs = dict(zip(outputs, ("output", "errors"), strict=True))

    def _pass_on(self, output: int) -> bool:
        """What the program has written by now; False at its end, or if there is nothing."""
        try:
            piece = os.read(output, PIECE_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # A terminal that nobody has open any more.
            piece = b""
        if piece:
            self._tell(self._outputs[output], data=b64encode(piece).decode())
        elif output in self._selector.get_map():
            self._selector.unregister(output)
        return piece != b""

    def _put_input(self) -> None:
        """As much of the input as the program takes now."""
        if self._input is None:
            self._pending.clear()
            return
        count = 0
        try:
            count = os.write(self._input, self._pending) if self._pending else 0
        except BlockingIOError:
            pass
        except OSError:  # It reads no more.
            count = len(self._pending)
        del self._pending[:count]
        if count:
            self._tell("taken", count=count)
        self._await_room()
        if self._input_ended and not self._pending:
            self._close_input()

    def _await_room(self) -> None:
        assert self._input is not None
        awaited = self._input in self._selector.get_map()
        if self._pending and not awaited:
            self._watch(self._input, self._put_input, selectors.EVENT_WRITE)
        elif awaited and not self._pending:
            self._selector.unregister(self._input)

    def _close_input(self) -> None:
        if self._input is not None:
            if self._input in self._selector.get_map():
                self._selector.unregister(self._input)
            os.close(self._input)
            self._input = None

    def _ended(self) -> None:
        """The program, though not perhaps all that it started: what it had written is told, and how it ended."""
        assert self._process is not None
        code = self._process.wait()
        for output in self._outputs:
            for _ in range(LAST_PIECES):
                if not self._pass_on(output):
                    break
        self._tell("exit", status=code if code >= 0 else 128 - code)
        self._over = True


def _set_window(terminal: int, size: list[int]) -> None:
    """Rows and columns."""
    with suppress(OSError, struct.error):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[0], size[1], 0, 0))


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    """As a terminal does; SIGKILL to what does not heed it."""
    with suppress(ProcessLookupError):
        for number in (signal.SIGHUP, signal.SIGCONT):
            os.killpg(process.pid, number)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
