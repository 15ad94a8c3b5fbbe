"""What idle links do to single packets: one-way time, loss and overtaking of every directed edge, all measured at once.

The ends are the program `linkprobe`, one in each site. Every pair must be routed over its own edge: see
`measure.pinned_to_edges`.
"""

from __future__ import annotations

import time
from pathlib import Path

from testbed.bed import Testbed
from testbed.edgefidelity import EdgeProbe, summarized
from testbed.siteprograms import run_in_sites
from topologies import Edge

LINK_PROBE = Path(__file__).with_name("linkprobe.py")
LEAD_S = 0.2
LATEST_S = 0.5
"""How much later than its link's delay a packet may arrive and is not lost."""


def probe_edges(bed: Testbed, packets: int = 200, every_s: float = 0.01) -> dict[Edge, EdgeProbe]:
    """Probe every directed edge while nothing else is sent. RingroadError if an end fails or is stuck."""
    set_to = {status.edge: status.properties for status in bed.links()}
    longest_s = max(properties.delay_s + properties.jitter_s for properties in set_to.values())
    begin_at: list[float] = []

    def plan(site: str, ports: dict[str, int]) -> dict[str, object]:
        if not begin_at:
            begin_at.append(time.monotonic() + LEAD_S)
        peers = [(bed.site(target).ip, ports[target]) for source, target in set_to if source == site]
        end_at = begin_at[0] + packets * every_s + longest_s + LATEST_S
        return {"peers": peers, "begin_at": begin_at[0], "end_at": end_at, "every_s": every_s, "packets": packets}

    sites = list(dict.fromkeys(site for edge in set_to for site in edge))
    arrived = run_in_sites(bed, LINK_PROBE, sites, plan)
    return {
        edge: summarized(edge, properties, packets, arrived[edge[1]].get(bed.site(edge[0]).ip, []))
        for edge, properties in set_to.items()
    }
