"""A switch that is no switch: says over TCP what a test wants, as bytes, and otherwise behaves.

Knows nothing of the controller's code; the layouts are those of the OpenFlow 1.3 specification.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

HELLO, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY = 0, 2, 3, 5, 6
MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 18, 19, 20, 21
PORT_STATUS = 12
FLOW, GROUP_DESCRIPTION, PORT_DESCRIPTION = 1, 7, 13


def message(kind: int, body: bytes = b"", xid: int = 1, version: int = 4) -> bytes:
    return struct.pack("!BBHI", version, kind, 8 + len(body), xid) + body


def multipart(kind: int, entries: bytes = b"", xid: int = 1) -> bytes:
    return message(MULTIPART_REPLY, struct.pack("!HHxxxx", kind, 0) + entries, xid)


def port(number: int, state: int = 4) -> bytes:
    """`state` 4 is live, 1 is without carrier."""
    return struct.pack("!IxxxxBBBBBBxx16sII24x", number, 2, 0, 0, 0, 0, number & 255, b"eth", 0, state)


class FakeSwitch:
    """Connected at once; `serve_until` answers whatever the controller asks."""

    def __init__(self, openflow_port: int, dpid: int, ports: tuple[int, ...] = (1, 2), timeout_s: float = 10.0) -> None:
        self.dpid, self.ports = dpid, ports
        self.silent = False
        self.seen: list[int] = []
        """Kinds of the messages that came."""
        self._connection = socket.create_connection(("127.0.0.1", openflow_port), timeout=timeout_s)
        self._buffer = bytearray()
        self.send(message(HELLO))

    def send(self, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.sendall(data)

    def serve_until(self, kind: int) -> bool:
        """Answer until a message of this kind has been answered; False if the controller closes before."""
        while True:
            received = self._next()
            if received is None:
                return False
            self._answer(*received)
            if received[0] == kind:
                return True

    def is_closed(self) -> bool:
        """Answer until the controller closes; TimeoutError if it does not."""
        while (received := self._next()) is not None:
            self._answer(*received)
        return True

    def serve_for(self, seconds: float) -> None:
        """Answer for so long, or until it is closed."""
        self._connection.settimeout(seconds)
        with suppress(TimeoutError):
            self.is_closed()

    def end(self) -> None:
        """Disconnect; whoever serves in another thread sees the end."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> FakeSwitch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> tuple[int, int, bytes] | None:
        while len(self._buffer) < 8 or len(self._buffer) < struct.unpack_from("!H", self._buffer, 2)[0]:
            try:
                received = self._connection.recv(65536)
            except ConnectionResetError:
                return None
            if not received:
                return None
            self._buffer += received
        _, kind, length, xid = struct.unpack_from("!BBHI", self._buffer)
        body = bytes(self._buffer[8:length])
        del self._buffer[:length]
        self.seen.append(kind)
        return kind, xid, body

    def _answer(self, kind: int, xid: int, body: bytes) -> None:
        if kind == FEATURES_REQUEST:
            self.send(message(FEATURES_REPLY, struct.pack("!QIBBxxII", self.dpid, 0, 1, 0, 0, 0), xid))
        elif kind == ECHO_REQUEST:
            self.send(message(ECHO_REPLY, body, xid))
        elif kind == BARRIER_REQUEST and not self.silent:
            self.send(message(BARRIER_REPLY, b"", xid))
        elif kind == MULTIPART_REQUEST:
            (what,) = struct.unpack_from("!H", body)
            entries = b"".join(map(port, self.ports)) if what == PORT_DESCRIPTION else b""
            self.send(multipart(what, entries, xid))
