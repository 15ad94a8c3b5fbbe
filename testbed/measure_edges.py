"""What idle links do to single packets: one-way time, loss and overtaking of every directed edge, all measured at once.

The ends are the program `linkprobe`, one in each site. Every pair must be routed over its own edge: see
`measure.pinned_to_edges`.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from testbed.bed import Testbed
from testbed.edgefidelity import EdgeProbe, summarized
from topologies import Edge, RingroadError

LINK_PROBE = str(Path(__file__).with_name("linkprobe.py"))
START_WITHIN_S = 30.0
LEAD_S = 0.1
LATEST_S = 0.5
"""How much later than its link's delay a packet may arrive and is not lost."""


def probe_edges(bed: Testbed, packets: int = 500, every_s: float = 0.004) -> dict[Edge, EdgeProbe]:
    """Probe every directed edge while nothing else is sent. RingroadError if an end fails or is stuck."""
    set_to = {status.edge: status.properties for status in bed.links()}
    sites = list(dict.fromkeys(site for edge in set_to for site in edge))
    longest_s = max(properties.delay_s + properties.jitter_s for properties in set_to.values())
    ends: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for site in sites:
            command = [sys.executable, "-S", LINK_PROBE]
            ends[site] = bed.site(site).popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ports = {site: _port(ends[site], site) for site in sites}
        begin_at = time.monotonic() + LEAD_S
        end_at = begin_at + packets * every_s + longest_s + LATEST_S
        for site in sites:
            peers = [(bed.site(target).ip, ports[target]) for source, target in set_to if source == site]
            plan = {"peers": peers, "begin_at": begin_at, "end_at": end_at, "every_s": every_s, "packets": packets}
            _tell(ends[site], plan)
        arrived = {site: _result(ends[site], site, end_at + START_WITHIN_S) for site in sites}
    finally:
        for process in ends.values():
            process.kill()
            process.communicate()
    addresses = {site: bed.site(site).ip for site in sites}
    return {
        edge: summarized(edge, properties, packets, arrived[edge[1]].get(addresses[edge[0]], []))
        for edge, properties in set_to.items()
    }


def _port(end: subprocess.Popen[bytes], site: str) -> int:
    assert end.stdout is not None
    ready, _, _ = select.select([end.stdout], [], [], START_WITHIN_S)
    words = os.read(end.stdout.fileno(), 4096).split() if ready else []
    if len(words) != 2 or words[0] != b"ready":
        raise RingroadError(f"the probe in {site} does not start", "its log is in the run folder")
    return int(words[1])


def _tell(end: subprocess.Popen[bytes], plan: dict[str, object]) -> None:
    assert end.stdin is not None
    end.stdin.write(json.dumps(plan).encode() + b"\n")
    end.stdin.flush()


def _result(end: subprocess.Popen[bytes], site: str, deadline: float) -> dict[str, list[list[float]]]:
    try:
        output, _ = end.communicate(timeout=max(0.0, deadline - time.monotonic()))
        return json.loads(output)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise RingroadError(f"the probe in {site} did not end as it should", "its log is in the run folder") from error
