"""One end of a numbered flow inside a DC: sends packets that carry their number, or counts what became of them.

A program of its own, which knows nothing of the testbed that it runs in. It prints `ready`, with the port of a
receiver, once the other end can be started, and at its end what it counted, as JSON.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import time
from collections.abc import Sequence

PACKET = struct.Struct("!QQ")
"""Number of the packet, and how many there will be."""
PACKET_BYTES = 1000
SILENCE_S = 3.0
"""A receiver that hears nothing for so long takes the rest as lost."""


def _ready(end: socket.socket) -> None:
    print("ready", end.getsockname()[1], flush=True)


def _send_udp(address: str, port: int, packets: int, every_s: float) -> dict:
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.connect((address, port))
    _ready(flow)
    start = time.monotonic()
    for number in range(packets):
        time.sleep(max(0.0, start + number * every_s - time.monotonic()))
        flow.send(PACKET.pack(number, packets).ljust(PACKET_BYTES, b"\0"))
    return {"sent": packets}


def _receive_udp() -> dict:
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 2**20)
    flow.bind(("", 0))
    _ready(flow)
    seen: set[int] = set()
    late = repeated = total = 0
    longest_gap_s, last_at, newest = 0.0, 0.0, -1
    while not total or newest < total - 1:
        flow.settimeout(SILENCE_S if total else 30.0)
        try:
            number, total = PACKET.unpack_from(flow.recv(2 * PACKET_BYTES))
        except TimeoutError:
            break
        now = time.monotonic()
        longest_gap_s = max(longest_gap_s, now - last_at) if last_at else 0.0
        last_at = now
        repeated += number in seen
        late += number < newest
        seen.add(number)
        newest = max(newest, number)
    return {
        "sent": total,
        "lost": total - len(seen),
        "late": late,
        "repeated": repeated,
        "longest_gap_s": longest_gap_s,
    }


def _send_tcp(address: str, port: int, rate_bps: float, seconds: float) -> dict:
    flow = socket.create_connection((address, port))
    piece = bytes(round(rate_bps / 8 / 200))
    _ready(flow)
    start = time.monotonic()
    for number in range(round(seconds * 200)):
        time.sleep(max(0.0, start + number / 200 - time.monotonic()))
        flow.sendall(piece)
    flow.close()
    return {"sent": len(piece) * round(seconds * 200)}


def _receive_tcp() -> dict:
    server = socket.create_server(("", 0))
    _ready(server)
    flow, _ = server.accept()
    received = 0
    while piece := flow.recv(2**18):
        received += len(piece)
    return {"received": received}


def main(arguments: Sequence[str]) -> int:
    """The end that the arguments name; its exit code."""
    parser = argparse.ArgumentParser(prog="numberedflow", description=__doc__)
    ends = parser.add_subparsers(required=True)
    ends.add_parser("receive-udp").set_defaults(end=_receive_udp)
    ends.add_parser("receive-tcp").set_defaults(end=_receive_tcp)
    for name, end, numbers in (
        ("send-udp", _send_udp, {"port": int, "packets": int, "every_s": float}),
        ("send-tcp", _send_tcp, {"port": int, "rate_bps": float, "seconds": float}),
    ):
        sender = ends.add_parser(name)
        sender.add_argument("address")
        for argument, kind in numbers.items():
            sender.add_argument(argument, type=kind)
        sender.set_defaults(end=end)
    given = vars(parser.parse_args(arguments))
    print(json.dumps(given.pop("end")(**given)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
