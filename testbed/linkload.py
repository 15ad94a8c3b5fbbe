"""One site's end of loading links: as much TCP as goes to every neighbor, and a count of what arrives from each.

A program of its own, which knows nothing of the testbed that it runs in. It prints `ready PORT`, reads one line of JSON
(see `Plan`), and at the end prints what it has received and how often its segments were sent again, as JSON.

It wakes up rarely: only when a good piece has arrived, or a good piece can be sent. Where a system call is expensive,
as in a user-mode kernel, it is the network and not the program that is measured.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

PIECE = bytes(128 * 1024)
WAKE_BYTES = 128 * 1024
LISTEN_BACKLOG = 1024
CONNECT_S = 10.0
TCP_NOTSENT_LOWAT, SO_SNDBUFFORCE = 25, 32
TOTAL_RETRANSMITS_AT = 100
"""Of `tcpi_total_retrans` in struct tcp_info, linux/tcp.h."""


Peer = tuple[str, int, int, int | None]
"""Address, port, how many connections, and the least number of bytes that each may have under way: it has few more.
None leaves that to TCP.
"""


class Plan:
    """Load `peers` (see `Peer`) from `begin_at` to `end_at` (s, CLOCK_MONOTONIC) with TCP's `congestion_control`.

    What arrives from `count_from` to `end_at` counts.
    """

    def __init__(self, plain: dict[str, Any]) -> None:
        self.peers: list[Peer] = [tuple(peer) for peer in plain["peers"]]
        self.congestion_control = plain["congestion_control"]
        self.begin_at, self.count_from, self.end_at = plain["begin_at"], plain["count_from"], plain["end_at"]


class Load:
    """All connections of one site, in one thread."""

    def __init__(self, server: socket.socket, plan: Plan) -> None:
        self._server, self._plan = server, plan
        self._poll = select.epoll()
        self._incoming: dict[int, tuple[socket.socket, str]] = {}
        self._outgoing: dict[int, tuple[socket.socket, str]] = {}
        self._buffer = bytearray(4 * 2**20)
        self._received: Counter[str] = Counter()

    def run(self) -> dict[str, dict[str, int]]:
        """Bytes received by the sender's address, and segments sent again by the receiver's."""
        self._server.setblocking(False)
        self._poll.register(self._server.fileno(), select.EPOLLIN)
        self._until(self._plan.begin_at)
        for address, port, flows, under_way_bytes in self._plan.peers:
            for _ in range(flows):
                self._connect(address, port, under_way_bytes)
        self._until(self._plan.count_from)
        self._take_all()
        self._received.clear()
        since = time.monotonic()
        self._until(self._plan.end_at)
        self._take_all()
        counted_s = time.monotonic() - since
        again: Counter[str] = Counter()
        for connection, address in self._outgoing.values():
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            again[address] += struct.unpack_from("=I", info, TOTAL_RETRANSMITS_AT)[0]
        return {"received": self._received, "retransmits": again, "counted_s": counted_s}

    def _connect(self, address: str, port: int, under_way_bytes: int | None) -> None:
        connection = socket.socket()
        if under_way_bytes is not None:  # The kernel doubles it, for what packets take besides their data.
            connection.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, under_way_bytes)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._plan.congestion_control.encode())
        connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, WAKE_BYTES)
        connection.setblocking(False)
        with suppress(BlockingIOError):
            connection.connect((address, port))
        self._outgoing[connection.fileno()] = connection, address
        self._poll.register(connection.fileno(), select.EPOLLOUT)

    def _until(self, deadline: float) -> None:
        while (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in self._poll.poll(left):
                if descriptor == self._server.fileno():
                    self._accept()
                elif descriptor in self._incoming:
                    self._take(descriptor)
                else:
                    self._give(descriptor)

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            while True:
                connection, (address, _) = self._server.accept()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WAKE_BYTES)
                connection.setblocking(False)
                self._incoming[connection.fileno()] = connection, address
                self._poll.register(connection.fileno(), select.EPOLLIN)

    def _take(self, descriptor: int) -> None:
        """Let the kernel throw away what has arrived, and count it."""
        connection, address = self._incoming[descriptor]
        try:
            received = connection.recv_into(self._buffer, flags=socket.MSG_TRUNC)
        except BlockingIOError:
            return
        except OSError:
            received = 0
        if received == 0:
            self._poll.unregister(descriptor)
        self._received[address] += received

    def _take_all(self) -> None:
        for descriptor, (connection, _) in self._incoming.items():
            if connection.fileno() >= 0:
                self._take_quietly(descriptor)

    def _take_quietly(self, descriptor: int) -> None:
        with suppress(OSError, KeyError):
            self._take(descriptor)

    def _give(self, descriptor: int) -> None:
        connection, _ = self._outgoing[descriptor]
        try:
            connection.send(PIECE)
        except BlockingIOError:
            return
        except OSError:
            self._poll.unregister(descriptor)


def main() -> None:
    """See the module."""
    server = socket.create_server(("", 0), backlog=LISTEN_BACKLOG)
    print("ready", server.getsockname()[1], flush=True)
    plan = Plan(json.loads(sys.stdin.readline()))
    print(json.dumps(Load(server, plan).run()), flush=True)


if __name__ == "__main__":
    main()
