"""Large messages between every two ranks, one after the other, over connections that carry nothing else.

Both ranks of a pair give the same messages in the same order, so that nothing has to be asked or numbered; TCP holds a
sender back whose receiver is not ready. Two threads for each pair, one for each direction, are started with the first.
"""

from __future__ import annotations

import socket
import struct
import weakref
from collections.abc import Mapping
from datetime import timedelta

from workers.backend.meeting import hang_up, limit_waiting, wait_until_arrived
from workers.backend.ways import Rest, Sender, Way, mistake

_HEAD = struct.Struct("=QQ")
"""Before each message: the number of its collective and how many bytes it has, so that a mistake is seen as one."""

NEAR_S, NEAR_BYTES = 0.004, 256 * 1024
"""Between ranks so near so much under way carries half a gigabit per second. More would only wait before a link: all
of it at the begin, when every pair has something to send, and in the way of those who come a little later.
"""

_TCP_INFO_BYTES, _MIN_RTT = 152, struct.Struct("=148xI")
"""The least round trip that TCP has seen, in microseconds. Source: tcp_info in linux/tcp.h."""

_AT_ONCE = 256 * 1024
"""Bytes that are waited for at once: each time costs a turn of Python's."""


class Streams:
    """Those of one rank. `peers` are connections for this alone.

    What is returned blocks until the message is there, or has left: only then its memory may be used again.
    RuntimeError if its size differs, after an end of the connection, `break_off`, or if nothing moves for `timeout`.
    """

    def __init__(self, peers: Mapping[int, socket.socket], timeout: timedelta) -> None:
        self._peers = list(peers.values())
        for peer in self._peers:
            limit_waiting(peer, timeout)
        self._far = dict(peers)
        """Those to whom as much may be under way as TCP sees fit."""
        self._out = {rank: Sender(rank, peer) for rank, peer in peers.items()}
        self._in = {rank: _Receiver(rank, peer) for rank, peer in peers.items()}
        for way in (*self._out.values(), *self._in.values()):
            weakref.finalize(self, way.close).atexit = False  # handlers that run later may still send

    def send(self, text: memoryview, to: int, collective: int) -> Rest:
        """To that rank, after all before it. What the kernel has room for leaves at once."""
        far = self._far.get(to)
        if far is not None and _is_near(far):
            far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NEAR_BYTES // 2)  # which Linux doubles
            self._far.pop(to, None)
        return self._out[to].give([memoryview(_HEAD.pack(collective, len(text))), text])

    def receive(self, place: memoryview, source: int, collective: int) -> Rest:
        """`place` becomes the next message from that rank, which is to be of that collective."""
        return self._in[source].give([memoryview(_HEAD.pack(collective, len(place))), place])

    def linger(self, most_s: float) -> None:
        """Wait until all that was sent has arrived, but no longer than that."""
        wait_until_arrived(self._peers, most_s)

    def break_off(self) -> None:
        """Whoever waits, here or at a peer, has an error now. Any thread; idempotent."""
        hang_up(self._peers)


def _is_near(connection: socket.socket) -> bool:
    if connection.family != socket.AF_INET:
        return False
    (least_us,) = _MIN_RTT.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES))
    return least_us <= NEAR_S * 1e6


class _Receiver(Way):
    """From a rank: straight to where the message belongs."""

    def _move(self, parts: list[memoryview]) -> None:
        head = memoryview(bytearray(_HEAD.size))
        self._fill(head)
        (its, size), (expected, room) = _HEAD.unpack(head), _HEAD.unpack(parts[0])
        if wrong := mistake(its, expected, size, room):
            raise RuntimeError(wrong)
        self._fill(parts[1])

    def _fill(self, place: memoryview) -> None:
        while place:
            count = self._connection.recv_into(place[:_AT_ONCE], 0, socket.MSG_WAITALL)
            if not count:
                raise RuntimeError("has closed its connection")
            place = place[count:]
