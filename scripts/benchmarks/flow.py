"""A TCP flow that always fits into its links, so that whatever is lost of it was not lost to congestion."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.bed import Testbed
from testbed.emulation.dc import Dc
from topologies import Edge, RingroadError

READY_S = 30.0
BLOCK_BYTES = 1400
"""Written and sent at once: many small packets, so that one is always under way, and no bursts."""


@contextmanager
def steady_flow(bed: Testbed, pair: Edge, rate_bps: float) -> Iterator[None]:
    """A flow of `rate_bps` from one site to another, under way when the context begins, over when it has ended."""
    source, target = (bed.site(name) for name in pair)
    server = _popen(target, ["iperf3", "--server", "--one-off", "--forceflush"])
    client = None
    try:
        _wait_for(server, b"listening")
        rate = ["--bitrate", f"{rate_bps:.0f}", "--length", str(BLOCK_BYTES), "--set-mss", str(BLOCK_BYTES)]
        client = _popen(
            source, ["iperf3", "--client", target.ip, "--forceflush", "--interval", "1", "--time", "3600", *rate]
        )
        _wait_for(client, b"bits/sec")
        yield
    finally:
        if client is not None:
            client.send_signal(signal.SIGINT)
            client.communicate(timeout=READY_S)
        server.kill()
        server.communicate()


def packets_lost(bed: Testbed, pair: Edge, sent_before: int, received_before: int) -> int:
    """Packets that left one site and did not arrive at the other since the counts given; only these two may talk."""
    lost = 0
    for attempt in range(2):
        if attempt:
            time.sleep(1.0)  # What is still under way is not lost; a second is a hundred times what it needs.
        sent, received = packet_counts(bed, pair)
        lost = (sent - sent_before) - (received - received_before)
        if lost == 0:
            break
    return lost


def packet_counts(bed: Testbed, pair: Edge) -> tuple[int, int]:
    """Packets that the first site's host has sent, and that the second's has received, since it came up."""
    return _counter(bed.site(pair[0]), 9), _counter(bed.site(pair[1]), 1)


def _counter(host: Dc, column: int) -> int:
    for line in Path(f"/proc/{host.netns_pid}/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == "eth0":
            return int(counters.split()[column])
    raise RingroadError(f"{host.name} has no eth0")


def _popen(host: Dc, command: list[str]) -> subprocess.Popen[bytes]:
    return host.popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _wait_for(process: subprocess.Popen[bytes], word: bytes) -> None:
    assert process.stdout is not None
    said, deadline = b"", time.monotonic() + READY_S
    while word not in said:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not chunk:
            raise RingroadError(f"{process.args!r} said: {said.decode(errors='replace').strip()}")
        said += chunk
