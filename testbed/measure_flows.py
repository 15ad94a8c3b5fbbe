"""Flows between two DCs of a running `Testbed`, and what happens to their packets meanwhile.

The ends of the flows are the program `numberedflow`.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from controller.view import Pair, Route
from testbed.bed import Testbed
from testbed.probes import Probes
from topologies import RingroadError

NUMBERED_FLOW = str(Path(__file__).with_name("numberedflow.py"))
START_WITHIN_S = 20.0
SILENCE_S = 120.0
"""More than anything that probes measure may take."""


@dataclass(frozen=True)
class NumberedFlow:
    """What arrived of a flow of numbered UDP packets. `late` packets came after one of a higher number."""

    sent: int
    lost: int
    late: int
    repeated: int
    longest_gap_s: float


def count_losses(bed: Testbed, pair: Pair, routes: Sequence[Route], moves: int, every_s: float = 0.001) -> NumberedFlow:
    """A UDP flow of one packet each `every_s` while the pair is moved `moves` times, from route to route in turn.

    The pair is left unpinned. RingroadError if an end of the flow fails.
    """
    packets = round((moves * 0.05 + 0.5) / every_s)
    receiver, sender = start_flow(bed, pair, "udp", packets, every_s)
    _move(bed, pair, routes, moves)
    result_of(sender)
    return NumberedFlow(**result_of(receiver))


def _move(bed: Testbed, pair: Pair, routes: Sequence[Route], moves: int) -> None:
    """Moves 50 ms apart; each is confirmed by the switches before the wait for the next begins."""
    assert bed.controller is not None
    for number in range(moves):
        bed.controller.pin(pair, routes[number % len(routes)])
        time.sleep(0.05)
    bed.controller.unpin(pair)


class ProbeFlow:
    """Probes of one pair; `finish` has what became of them."""

    def __init__(self, bed: Testbed, pair: Pair, every_s: float, folder: Path) -> None:
        """The flow has begun. The records go to `folder`."""
        self._files = folder / "sent", folder / "arrived"
        self._receiver, self.port = _start_end(bed, pair[1], "receive-probes", str(SILENCE_S), str(self._files[1]))
        address = bed.site(pair[1]).ip
        self._sender, _ = _start_end(
            bed, pair[0], "send-probes", address, str(self.port), str(every_s), str(self._files[0])
        )
        self._probes: Probes | None = None

    def finish(self) -> Probes:
        """End the flow, if that has not been done; blocks until both ends have written their records."""
        if self._probes is None:
            self._sender.terminate()
            result_of(self._sender)
            result_of(self._receiver)
            self._probes = Probes.load(*self._files)
        return self._probes

    def kill(self) -> None:
        """Leave nothing running."""
        for process in (self._sender, self._receiver):
            process.kill()
            process.wait()


@contextmanager
def probe_flow(bed: Testbed, pair: Pair, every_s: float = 0.001) -> Iterator[ProbeFlow]:
    """A UDP packet of 100 bytes each `every_s` from one DC to another, punctual to the scheduler, until `finish`."""
    with tempfile.TemporaryDirectory(prefix="ringroad-probes-") as folder:
        flow = ProbeFlow(bed, pair, every_s, Path(folder))
        try:
            yield flow
        finally:
            flow.kill()


def start_flow(
    bed: Testbed, pair: Pair, protocol: Literal["udp", "tcp"], *numbers: float
) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """Receiver and sender of a flow that has begun; `result_of` each tells how it ended.

    The numbers are packets and seconds between them for UDP, bit/s and seconds in all for TCP.
    """
    receiver, port = _start_end(bed, pair[1], f"receive-{protocol}")
    address = bed.site(pair[1]).ip
    sender, _ = _start_end(bed, pair[0], f"send-{protocol}", address, str(port), *map(str, numbers))
    return receiver, sender


def _start_end(bed: Testbed, site: str, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    command = [sys.executable, NUMBERED_FLOW, *arguments]
    process = bed.site(site).popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_WITHIN_S)
    words = process.stdout.readline().split() if readable else []
    if words[:1] != [b"ready"]:
        raise RingroadError(f"one end of the flow {'did not start' if not readable else 'failed'} in {site}")
    return process, int(words[1])


def result_of(process: subprocess.Popen[bytes]) -> dict:
    """What an end counted; blocks until it is over. RingroadError if it failed."""
    assert process.stdout is not None
    with process.stdout:
        output = process.stdout.read()
    if process.wait() != 0:
        raise RingroadError("an end of the flow failed; its log says why")
    return json.loads(output)
