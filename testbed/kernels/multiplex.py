"""Many connections over one line, as frames. Pure: bytes in, what happened out; `switchboard` reads and writes.

A frame is a kind, the number of a connection, a length, and so many bytes. Each end may send only as much on a
connection as the other has made room for: so one that is not read holds up no other, and at most a window of it waits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from topologies.errors import RingroadError

HEADER = struct.Struct("!BIH")
MAX_PAYLOAD = 4096
WINDOW_BYTES = 64 * 1024
"""What may be under way on one connection, each way."""

LINE_BYTES = 2048
"""What may lie unread in the serial line of a user-mode kernel. It holds 4096, but if it is ever nearly full it stops
the driver, which then (line_throttle in arch/um/drivers/line.c) never listens again."""

TOLD_EVERY_BYTES = 512

_ROOM = struct.Struct("!I")


class Kind(IntEnum):
    """What a frame says of its connection."""

    OPEN = 1
    """It begins; the bytes name the service that is wanted."""
    DATA = 2
    ROOM = 3
    """So many bytes have been taken away; as many more may be sent."""
    END = 4
    """No more comes from here; the other direction goes on."""
    RESET = 5
    """It is over, both ways, whatever was under way."""
    READ = 6
    """Of the line itself: so many bytes of it have been read."""


class LineError(RingroadError):
    """What came over the line is not what the other end of a multiplexer says."""


@dataclass(frozen=True)
class Happened:
    """Something came for a connection. ROOM means that more may be sent than before."""

    kind: Kind
    number: int
    payload: bytes = b""


@dataclass
class _Connection:
    """`may_send` bytes are left of the other's window; `taken` have been read here and not yet been told of."""

    may_send: int = WINDOW_BYTES
    may_receive: int = WINDOW_BYTES
    taken: int = 0
    ended_here: bool = False
    ended_there: bool = False


class Multiplexer:
    """One end. What is to be written to the line gathers in `outgoing`; `may_write` says how much of it may be now."""

    def __init__(self, inner: bool) -> None:
        """The `inner` end is in the kernel: it tells what it has read, and the outer one is never far ahead of that."""
        self._inner = inner
        self.outgoing = bytearray()
        self._unread = 0
        self._received = bytearray()
        self._connections: dict[int, _Connection] = {}
        self._last = 0

    @property
    def numbers(self) -> set[int]:
        """Of all connections that are open, one way or both."""
        return set(self._connections)

    def may_write(self) -> int:
        """How many bytes of `outgoing`."""
        return len(self.outgoing) if self._inner else min(len(self.outgoing), LINE_BYTES - self._unread)

    def wrote(self, count: int) -> None:
        """So many bytes are on the line."""
        del self.outgoing[:count]
        self._unread += 0 if self._inner else count

    def open(self, service: str) -> int:
        """A new connection; its number. Only one of the two ends may open any: numbers would meet."""
        self._last += 1
        self._connections[self._last] = _Connection()
        self._put(Kind.OPEN, self._last, service.encode())
        return self._last

    def may_send(self, number: int) -> int:
        """How many bytes the other end has room for; 0 also for a connection that is over, or has been ended here."""
        return 0 if self.has_ended(number) else self._connections[number].may_send

    def has_ended(self, number: int) -> bool:
        """Whether nothing more is sent from here."""
        connection = self._connections.get(number)
        return connection is None or connection.ended_here

    def send(self, number: int, data: bytes) -> None:
        """Bytes for the other end; at most `may_send` of them. ValueError for more."""
        if len(data) > self.may_send(number):
            raise ValueError(f"connection {number} has room for {self.may_send(number)} bytes, not for {len(data)}")
        self._connections[number].may_send -= len(data)
        for start in range(0, len(data), MAX_PAYLOAD):
            self._put(Kind.DATA, number, data[start : start + MAX_PAYLOAD])

    def took(self, number: int, count: int) -> None:
        """So many of the bytes that came have been handed on: the other end may send more."""
        connection = self._connections.get(number)
        if connection is None:
            return
        connection.taken += count
        if connection.taken >= WINDOW_BYTES // 2 and not connection.ended_there:
            self._put(Kind.ROOM, number, _ROOM.pack(connection.taken))
            connection.may_receive += connection.taken
            connection.taken = 0

    def end(self, number: int) -> None:
        """Nothing more is sent from here; the connection is over once the other end has said so too."""
        connection = self._connections.get(number)
        if connection is not None and not connection.ended_here:
            connection.ended_here = True
            self._put(Kind.END, number)
            self._forget_if_over(number)

    def reset(self, number: int) -> None:
        """It is over, both ways. Nothing happens if it is already."""
        if self._connections.pop(number, None) is not None:
            self._put(Kind.RESET, number)

    def receive(self, piece: bytes) -> Iterator[Happened]:
        """What has come over the line, in any pieces. LineError for what no multiplexer sends."""
        self._received += piece
        self._acknowledge(len(piece))
        while len(self._received) >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self._received)
            if not Kind.OPEN <= kind <= Kind.READ or length > MAX_PAYLOAD:
                raise LineError(f"no frame: {bytes(self._received[: HEADER.size]).hex()}")
            if len(self._received) < HEADER.size + length:
                return
            payload = bytes(self._received[HEADER.size : HEADER.size + length])
            del self._received[: HEADER.size + length]
            yield from self._frame(Kind(kind), number, payload)

    def _acknowledge(self, count: int) -> None:
        if self._inner:
            self._unread += count
            if self._unread >= TOLD_EVERY_BYTES:
                self._put(Kind.READ, 0, _ROOM.pack(self._unread))
                self._unread = 0

    def _frame(self, kind: Kind, number: int, payload: bytes) -> Iterator[Happened]:
        if kind in (Kind.READ, Kind.ROOM) and len(payload) != _ROOM.size:
            raise LineError(f"connection {number} makes no room: {payload.hex()}")
        if kind is Kind.READ:
            self._unread -= _ROOM.unpack(payload)[0]
            return
        if kind is Kind.OPEN:
            if number in self._connections:
                raise LineError(f"connection {number} is opened twice")
            self._connections[number] = _Connection()
            yield Happened(kind, number, payload)
            return
        connection = self._connections.get(number)
        if connection is None:
            return  # It was reset here, and the other end did not know yet.
        if kind is Kind.DATA:
            connection.may_receive -= len(payload)
            if connection.may_receive < 0 or connection.ended_there:
                raise LineError(f"connection {number} sends more than it may")
        elif kind is Kind.ROOM:
            connection.may_send += _ROOM.unpack(payload)[0]
        elif kind is Kind.END:
            connection.ended_there = True
            self._forget_if_over(number)
        else:
            del self._connections[number]
        yield Happened(kind, number, payload if kind is Kind.DATA else b"")

    def _forget_if_over(self, number: int) -> None:
        connection = self._connections[number]
        if connection.ended_here and connection.ended_there:
            del self._connections[number]

    def _put(self, kind: Kind, number: int, payload: bytes = b"") -> None:
        self.outgoing += HEADER.pack(kind, number, len(payload)) + payload
