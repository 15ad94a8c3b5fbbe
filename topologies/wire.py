"""How the processes of one run talk: one JSON object a line, over a Unix socket of mode 0600.

Unix sockets cross network namespaces, so a worker inside a DC reaches the runner without touching the emulated WAN.
Here because every package above needs it; it knows nothing of what the lines mean.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from topologies.errors import RingroadError

MAX_LINE_BYTES = 4 * 2**20
"""Longer lines are refused: no message of ours comes near, and memory stays bounded whoever connects."""

MAX_PATH_BYTES = 107
"""What Linux allows in the address of a Unix socket."""


class WireError(RingroadError):
    """The other side is gone, or speaks something else."""


class ConnectionLost(WireError):
    """The other side is gone: it may be there again for who connects anew."""


def listen(path: Path) -> socket.socket:
    """A listening Unix socket at `path`, mode 0600 from its first moment. The caller closes and unlinks it."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise WireError(f"{path} is too long for a Unix socket", f"choose a path of at most {MAX_PATH_BYTES} bytes")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        server.bind(os.fspath(path))
    finally:
        os.umask(before)
    server.listen(64)
    return server


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Write one message; blocks while the other side does not read. WireError if it is gone."""
    try:
        connection.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    except OSError as error:
        raise ConnectionLost(f"cannot send to the other process: {error.strerror or error}") from error


def messages(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Every message until the other side closes. WireError for a line that is too long or not a JSON object."""
    buffer = bytearray()
    while True:
        end = buffer.find(b"\n")
        if end < 0:
            if len(buffer) > MAX_LINE_BYTES:
                raise WireError("a message without end")
            received = connection.recv(65536)
            if not received:
                return
            buffer += received
            continue
        line = bytes(buffer[:end])
        del buffer[: end + 1]
        yield decode(line)


def decode(line: bytes) -> dict[str, Any]:
    """One line as a message. WireError if it is not a JSON object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise WireError(f"not a JSON object: {line[:80]!r}")
    return message


class Client:
    """Request and reply over one connection. Not thread-safe: one client, one thread.

    `on_event` receives messages that arrive while waiting and carry an `event` instead of a reply.
    """

    def __init__(
        self, path: Path, timeout_s: float | None = 10.0, on_event: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(timeout_s)
        try:
            self._connection.connect(os.fspath(path))
        except OSError as error:
            self._connection.close()
            raise WireError(f"nobody answers at {path}: {error.strerror or error}") from error
        self._messages = messages(self._connection)
        self._on_event = on_event

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request, wait for its reply. WireError if the other side is gone, slow, or answers with an error."""
        send(self._connection, {"op": op, **fields})
        try:
            for message in self._messages:
                if "event" in message:
                    if self._on_event:
                        self._on_event(message)
                    continue
                if "error" in message:
                    raise WireError(str(message["error"]))
                return message
        except TimeoutError as error:
            raise WireError(f"no reply to {op!r} within {self._connection.gettimeout():g} s") from error
        except OSError as error:
            raise ConnectionLost(f"no reply to {op!r}: {error.strerror or error}") from error
        raise ConnectionLost(f"the other side closed the connection instead of answering {op!r}")

    def give_up(self) -> None:
        """From any thread: whoever waits for a reply waits no more, and gets a WireError."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the other side sees the end."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
