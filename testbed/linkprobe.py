"""One site's end of probing links that are idle: sends small numbered packets to neighbors, times those that arrive.

A program of its own, which knows nothing of the testbed that it runs in. It prints `ready PORT`, reads one line of JSON
(when to begin, by CLOCK_MONOTONIC; where to send to), and at the end prints what it has received, as JSON.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from typing import Any

PACKET = struct.Struct("!Qd")
"""Number of the packet, and when it was sent (s, CLOCK_REALTIME, in which the kernel stamps what arrives)."""

TIMESTAMP = struct.Struct("@qq")
"""Seconds and nanoseconds, as SO_TIMESTAMPNS has them."""

SO_TIMESTAMPNS = 35
PACKET_BYTES = 100
STAMP_BYTES = socket.CMSG_SPACE(TIMESTAMP.size)
BUFFER_BYTES = 4 * 2**20


class Plan:
    """What is to be done: `packets` to each of `peers` (address, port), one each `every_s` from `begin_at` on.

    Packets that have not arrived by `end_at` count as lost.
    """

    def __init__(self, plain: dict[str, Any]) -> None:
        self.peers = [(address, port) for address, port in plain["peers"]]
        self.begin_at, self.end_at = plain["begin_at"], plain["end_at"]
        self.every_s, self.packets = plain["every_s"], plain["packets"]

    def due_at(self, number: int) -> float:
        """When packet `number` is to be sent; never, after the last."""
        return self.begin_at + number * self.every_s if number < self.packets else float("inf")


def probe(end: socket.socket, plan: Plan) -> dict[str, list[list[float]]]:
    """By the sender's address: number, one-way time (s) of every packet, in order of arrival."""
    arrived: dict[str, list[list[float]]] = {}
    number = 0
    while (now := time.monotonic()) < plan.end_at:
        if now >= plan.due_at(number):
            for peer in plan.peers:
                end.sendto(PACKET.pack(number, time.time()).ljust(PACKET_BYTES, b"\0"), peer)
            number += 1
            continue
        until = min(plan.due_at(number), plan.end_at)
        if select.select([end], [], [], max(0.0, until - now))[0]:
            packet, stamps, _, (address, _) = end.recvmsg(PACKET_BYTES, STAMP_BYTES)
            seconds, nanoseconds = TIMESTAMP.unpack_from(stamps[0][2])
            its_number, sent_at = PACKET.unpack_from(packet)
            arrived.setdefault(address, []).append([its_number, seconds + nanoseconds / 1e9 - sent_at])
    return arrived


def main() -> None:
    """See the module."""
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    end.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    end.bind(("", 0))
    print("ready", end.getsockname()[1], flush=True)
    plan = Plan(json.loads(sys.stdin.readline()))
    print(json.dumps(probe(end, plan)), flush=True)


if __name__ == "__main__":
    main()
