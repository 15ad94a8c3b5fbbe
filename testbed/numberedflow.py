"""One end of a numbered flow inside a DC: sends packets that carry their number, or counts what became of them.

A program of its own, which knows nothing of the testbed that it runs in. It prints `ready`, with the port of a
receiver, once the other end can be started, and at its end what it counted, as JSON. Probes also write down
when each was sent, or came in by the kernel's own clock: number (unsigned, 8 bytes) and second of CLOCK_MONOTONIC
(double), in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

PACKET = struct.Struct("!QQ")
"""Number of the packet, and how many there are; 0 while that is open."""
ENTRY = struct.Struct("=Qd")
TIMESTAMP = struct.Struct("=qq")
SO_TIMESTAMPNS = 35
PACKET_BYTES = 1000
SMALL_BYTES = 100
"""Of a probe, which is to be no load."""
SILENCE_S = 3.0
"""A receiver that hears nothing for so long takes the rest as lost."""
FIRST_WITHIN_S = 30.0
LAST_TIMES = 20
"""The last packet of a flow without a set length goes out so often, as some may be lost."""
PRIORITY = 10


def _ready(end: socket.socket) -> None:
    print("ready", end.getsockname()[1], flush=True)


def _be_punctual() -> None:
    """Run before everything else that wants the processor: this is the clock by which others are measured."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))


def _send_udp(address: str, port: int, packets: int, every_s: float) -> dict:
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.connect((address, port))
    _ready(flow)
    start = time.monotonic()
    for number in range(packets):
        time.sleep(max(0.0, start + number * every_s - time.monotonic()))
        flow.send(PACKET.pack(number, packets).ljust(PACKET_BYTES, b"\0"))
    return {"sent": packets}


def _send_probes(address: str, port: int, every_s: float, record: Path) -> dict:
    """Until SIGTERM. A packet that is late is sent at once, and the next one at its own time."""
    ended: list[int] = []

    def _end(number: int, _: FrameType | None) -> None:
        ended.append(number)

    signal.signal(signal.SIGTERM, _end)
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.connect((address, port))
    _be_punctual()
    entries = bytearray()
    _ready(flow)
    start, number = time.monotonic(), 0
    while not ended:
        time.sleep(max(0.0, start + number * every_s - time.monotonic()))
        entries += ENTRY.pack(number, time.monotonic())
        flow.send(PACKET.pack(number, 0).ljust(SMALL_BYTES, b"\0"))
        number += 1
    with suppress(ConnectionRefusedError):  # The receiver has heard it and is gone.
        for _ in range(LAST_TIMES):
            time.sleep(every_s)
            flow.send(PACKET.pack(number, number + 1).ljust(SMALL_BYTES, b"\0"))
    record.write_bytes(entries)
    return {"sent": number}


def _receive_udp() -> dict:
    flow = _receiver()
    seen: set[int] = set()
    late = repeated = total = 0
    longest_gap_s, last_at, newest = 0.0, 0.0, -1
    while not total or newest < total - 1:
        flow.settimeout(SILENCE_S if total else FIRST_WITHIN_S)
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


def _receive_probes(silence_s: float, record: Path) -> dict:
    """Until the last packet comes, or none for `silence_s`. The times are the kernel's, when each packet came in."""
    flow = _receiver()
    flow.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    _be_punctual()
    flow.settimeout(silence_s)
    entries = bytearray()
    with suppress(TimeoutError):
        while True:
            packet, ancillary, _, _ = flow.recvmsg(PACKET_BYTES, 64)
            number, total = PACKET.unpack_from(packet)
            if total:
                break
            seconds, nanoseconds = TIMESTAMP.unpack(ancillary[0][2])
            # The kernel stamps with wall-clock time; the age is free of the wall clock's offset.
            age_s = time.time() - (seconds + nanoseconds / 1e9)
            entries += ENTRY.pack(number, time.monotonic() - age_s)
    record.write_bytes(entries)
    return {"received": len(entries) // ENTRY.size}


def _receiver() -> socket.socket:
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 2**20)
    flow.bind(("", 0))
    _ready(flow)
    return flow


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


ENDS = (
    ("receive-udp", _receive_udp, {}),
    ("receive-tcp", _receive_tcp, {}),
    ("receive-probes", _receive_probes, {"silence_s": float, "record": Path}),
    ("send-udp", _send_udp, {"address": str, "port": int, "packets": int, "every_s": float}),
    ("send-tcp", _send_tcp, {"address": str, "port": int, "rate_bps": float, "seconds": float}),
    ("send-probes", _send_probes, {"address": str, "port": int, "every_s": float, "record": Path}),
)


def main(arguments: Sequence[str]) -> int:
    """The end that the arguments name; its exit code."""
    parser = argparse.ArgumentParser(prog="numberedflow", description=__doc__)
    ends = parser.add_subparsers(required=True)
    for name, end, words in ENDS:
        subparser = ends.add_parser(name)
        for argument, kind in words.items():
            subparser.add_argument(argument, type=kind)
        subparser.set_defaults(end=end)
    given = vars(parser.parse_args(arguments))
    print(json.dumps(given.pop("end")(**given)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
