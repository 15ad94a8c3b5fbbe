"""What moving a path does to the packets on it, and how fast a move follows its cause.

Its functions drive a running `Testbed`; the ends of the flows are `numberedflow`. It knows nothing of how results are
kept or judged.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from controller.records import Reconfiguration, reconfiguration_from_json
from controller.view import Pair, Route
from testbed.bed import Testbed
from topologies import Edge, RingroadError


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
    receiver = start_end(bed, pair[1], "receive")
    sender = start_end(bed, pair[0], "send", bed.dc(pair[1]).ip, str(packets), str(every_s))
    _move(bed, pair, routes, moves)
    result_of(sender)
    return NumberedFlow(**result_of(receiver))


def count_retransmissions(bed: Testbed, pair: Pair, routes: Sequence[Route], moves: int, rate_bps: float) -> int:
    """TCP retransmissions of a flow paced at `rate_bps`, below what the links carry, while the pair is moved."""
    receiver = start_end(bed, pair[1], "receive-tcp")
    seconds = moves * 0.05 + 0.5
    sender = start_end(bed, pair[0], "send-tcp", bed.dc(pair[1]).ip, str(rate_bps), str(seconds))
    _move(bed, pair, routes, moves)
    result_of(receiver)
    return result_of(sender)["retransmissions"]


def time_reroutes(bed: Testbed, edge: Edge, low_bps: float, trials: int) -> list[Reconfiguration]:
    """Drop one edge's rate `trials` times (and raise it again between): what the controller recorded of each drop.

    Drop to confirmed ingress rules: `installed_at - happened_at`, where `happened_at` is when the kernel held the rate.
    RingroadError if a drop moves nothing within 10 s, as under a policy that never moves.
    """
    assert bed.controller is not None
    high_bps = bed.wan.edges[edge].rate_bps
    records = []
    with bed.controller.subscribe() as stream:
        events = stream.events(timeout_s=10.0)

        def _shape(rate_bps: float) -> Reconfiguration:
            since = time.monotonic()
            bed.shape(edge, rate_bps=rate_bps, direction=edge)
            for event in events:
                if event.get("cause") == "capacity" and event["happened_at"] >= since:
                    return reconfiguration_from_json(event)
            raise RingroadError("the controller is gone")

        for _ in range(trials):
            try:
                records.append(_shape(low_bps))
                _shape(high_bps)
            except TimeoutError as error:
                raise RingroadError(f"no pair moved when {'-'.join(edge)} went to {low_bps:g} bit/s") from error
    return records


def _move(bed: Testbed, pair: Pair, routes: Sequence[Route], moves: int) -> None:
    """Moves 50 ms apart; each is confirmed by the switches before the wait for the next begins."""
    assert bed.controller is not None
    for number in range(moves):
        bed.controller.pin(pair, routes[number % len(routes)])
        time.sleep(0.05)
    bed.controller.unpin(pair)


def start_end(bed: Testbed, dc: str, *arguments: str) -> subprocess.Popen[bytes]:
    """One end of a flow in its DC (arguments of `numberedflow`), once it is ready. A receiver comes first."""
    command = [sys.executable, "-m", "testbed.numberedflow", *arguments]
    process = bed.dc(dc).popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], 10.0)[0] or process.stdout.readline() != b"ready\n":
        raise RingroadError(f"the end of the flow in {dc} did not start")
    return process


def result_of(process: subprocess.Popen[bytes]) -> dict:
    """What an end counted; blocks until it is over. RingroadError if it failed."""
    assert process.stdout is not None
    with process.stdout:
        output = process.stdout.read()
    if process.wait() != 0:
        raise RingroadError("an end of the flow failed; its log says why")
    return json.loads(output)
