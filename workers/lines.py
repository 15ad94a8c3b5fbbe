"""Reads the messages of `topologies.wire` without waiting for more than has come: for a loop over many sockets."""

from __future__ import annotations

import socket
from typing import Any

from topologies import wire


class Lines:
    """The incoming side of one connection; the caller owns the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """The messages that are complete, and whether the other side has closed. WireError if it speaks otherwise."""
        closed = False
        while not closed:
            try:
                received = self._connection.recv(2**16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionError:
                received = b""
            self._buffer += received
            closed = not received
            if len(self._buffer) > wire.MAX_LINE_BYTES:
                raise wire.WireError("a message without end")
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer[:] = rest
        return [wire.decode(line) for line in lines], closed
