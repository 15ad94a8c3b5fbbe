"""Small messages that leave at once: each over a connection of the two ranks that carries nothing else, unasked.

gloo sends nothing before the receiver has said that it is ready, and wakes a thread of its own for what comes. Here the
thread that wants a letter reads it itself. Between two ranks letters are numbered, in the order in which both expect
them; in which order they are sent or wanted does not matter.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import weakref
from collections.abc import Mapping
from datetime import timedelta

from workers.backend.meeting import hang_up, limit_waiting, wait_until_arrived
from workers.backend.ways import Rest, Sender, mistake

LETTER_BYTES = 64 * 1024
"""The largest."""

_HEAD = struct.Struct("=QQQ")
"""At the begin of a letter: its number, that of its collective, and how many bytes follow."""

_LOOK_AGAIN_S = 1.0
"""An interrupt may end a thread that reads before it can tell the others."""


class Letters:
    """Those of one rank. `peers` are connections for this alone. Safe from any thread.

    Both sides of a pair reserve in the same order. What cannot be sent or received is a RuntimeError: after an end of
    the connection, `break_off`, or if nothing comes for `timeout`.
    """

    def __init__(self, peers: Mapping[int, socket.socket], timeout: timedelta) -> None:
        self._out = {rank: Sender(rank, peer) for rank, peer in peers.items()}
        self._numbers = {rank: itertools.count() for rank in peers}
        self._in = {rank: _In(rank, peer) for rank, peer in peers.items()}
        self._peers = list(peers.values())
        for peer in self._peers:
            limit_waiting(peer, timeout)
        for each in self._out.values():
            weakref.finalize(self, each.close).atexit = False  # handlers that run later may still send

    def reserve(self, to: int) -> int:
        """The number of the next letter to that rank, whenever it is sent."""
        return next(self._numbers[to])

    def send(self, text: memoryview, to: int, number: int, collective: int) -> Rest:
        """A letter of a number that was reserved. What is returned blocks until it has left: then `text` may change."""
        return self._out[to].give([memoryview(_HEAD.pack(number, collective, len(text))), text])

    def receive(self, place: memoryview, source: int, collective: int) -> Rest:
        """The next letter from that rank, of that collective and as many bytes as `place` has, is for it.

        What is returned blocks until it is there. RuntimeError if it is another one.
        """
        mine = self._in[source]
        number = next(mine.numbers)

        def open_it() -> None:
            its, text = mine.take(number)
            if wrong := mistake(its, collective, len(text), len(place)):
                raise RuntimeError(f"rank {source} {wrong}")
            place[:] = text

        return open_it

    def linger(self, most_s: float) -> None:
        """Wait until all that was sent has arrived, but no longer than that."""
        wait_until_arrived(self._peers, most_s)

    def break_off(self) -> None:
        """Whoever waits for a letter, here or at a peer, has an error now. Any thread; idempotent."""
        hang_up(self._peers)


class _In:
    """Letters from one rank: one thread reads, for all that wait."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.numbers = itertools.count()
        self._rank, self._connection = rank, connection
        self._changed = threading.Condition(threading.Lock())
        self._is_read = False
        self._kept: dict[int, tuple[int, bytes]] = {}
        """By number, the collective and the text of those that nobody has taken yet."""
        self._error: RuntimeError | None = None
        self._buffer = memoryview(bytearray(_HEAD.size + LETTER_BYTES))
        self._filled = 0

    def take(self, number: int) -> tuple[int, bytes]:
        """The letter of that number: its collective, its text. Blocks until it is there."""
        with self._changed:
            while number not in self._kept:
                if self._error is not None:
                    raise RuntimeError(str(self._error)) from self._error
                if self._is_read:
                    self._changed.wait(_LOOK_AGAIN_S)
                    continue
                try:
                    self._is_read = True
                    self._changed.release()
                    try:
                        self._read()
                    finally:
                        self._changed.acquire()
                finally:
                    self._is_read = False
                    self._changed.notify_all()
            return self._kept.pop(number)

    def _read(self) -> None:
        """Blocks until something has come; keeps the letters that are complete."""
        try:
            self._keep(self._connection.recv_into(self._buffer[self._filled :]))
        except OSError as error:
            self._error = _broken(self._rank, error)
        except BaseException:
            self._error = RuntimeError(f"reading from rank {self._rank} was interrupted")  # some may be lost
            raise

    def _keep(self, count: int) -> None:
        if not count:
            self._error = RuntimeError(f"rank {self._rank} has closed its connection")
            return
        self._filled += count
        begin = 0
        while self._filled - begin >= _HEAD.size:
            number, collective, length = _HEAD.unpack_from(self._buffer, begin)
            end = begin + _HEAD.size + length
            if end > self._filled:
                break
            self._kept[number] = collective, bytes(self._buffer[begin + _HEAD.size : end])
            begin = end
        if begin:
            rest = self._filled - begin
            self._buffer[:rest] = self._buffer[begin : self._filled]
            self._filled = rest


def _broken(rank: int, error: OSError) -> RuntimeError:
    if isinstance(error, BlockingIOError):
        return RuntimeError(f"timed out: rank {rank} has sent nothing")
    return RuntimeError(f"the connection to rank {rank} is broken: {error.strerror or error}")
