"""Measuring the emulated WAN itself: what TCP gets through each directed edge, all at once, at the receiver.

The fidelity gate and the benchmarks share it, so that a run is judged by what the figures are made of.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from testbed.bed import Testbed
from testbed.emulation import openvswitch
from testbed.emulation.plan import HOST_PORT
from testbed.emulation.qdisc import FRAME_BYTES, QUEUE_S
from testbed.kernels.inside import in_virtual_time
from testbed.siteprograms import run_in_sites
from topologies import Edge, RingroadError
from topologies.model import EdgeProperties

LINK_LOAD = Path(__file__).with_name("linkload.py")
LEAD_S = 0.2
OMITTED_S = 2.0
FLOWS, FLOWS_IN_VIRTUAL_TIME = 4, 8
CONGESTION_CONTROL = "cubic"
"""Links are loaded both ways, so acknowledgements wait behind data. A single flow, or BBR, which takes the shortest
round trip that it ever saw for the present one, keeps too little under way to fill a link then; a few of cubic fill it.
Where no machine adds its noise, flows that begin together leave their slow start together and early; that takes more.
"""
FEWEST_FRAMES = 4
"""In a window that bounds a flow: fewer, and what TCP rounds off is too much of it."""


@dataclass(frozen=True)
class Goodput:
    """What TCP delivered over one directed edge. `retransmits` are segments that were sent again."""

    edge: Edge
    rate_bps: float
    delivered_bps: float
    retransmits: int

    @property
    def ratio(self) -> float:
        """Delivered ÷ set rate. Headers alone cost 0.7 % of a jumbo frame."""
        return self.delivered_bps / self.rate_bps


@dataclass(frozen=True)
class Flows:
    """How many TCP flows load an edge, and what each may have under way (see `linkload`); None leaves that to TCP."""

    number: int
    under_way_bytes: int | None = None


def goodput(
    bed: Testbed, edges: Collection[Edge] | None = None, seconds: float = 3.0, lossless: bool = False
) -> dict[Edge, Goodput]:
    """TCP flows over each directed edge, all at the same time; bytes count at the receiver, after `OMITTED_S`.

    The ends are the program `linkload`, one in each site. With `lossless` flows fill the link and no more than half of
    its queue, which takes that nothing else is on the way there and back: what comes after a packet that was lost
    counts only once that one has come, and where round trips are long, that alone is some per cent of three seconds.

    A link at 10 Mbit/s takes 20 seconds to be measured to a percent: a queue holds 3 % of what it carries in 8.
    Every pair must be routed over its own edge: see `pinned_to_edges`. A link over which nothing came delivers 0;
    RingroadError if nothing came over any, or a program is stuck.
    """
    edges = list(bed.wan.edges if edges is None else edges)
    held = {status.edge: status.properties for status in bed.links()}
    flows = {edge: flows_over(held[edge], held[edge[::-1]].delay_s, lossless) for edge in edges}
    begin_at: list[float] = []

    def plan(site: str, ports: dict[str, int]) -> dict[str, object]:
        if not begin_at:
            begin_at.append(time.monotonic() + LEAD_S)
        count_from = begin_at[0] + OMITTED_S
        return {
            "peers": [
                (bed.site(target).ip, ports[target], *astuple(flows[source, target]))
                for source, target in edges
                if source == site
            ],
            "congestion_control": CONGESTION_CONTROL,
            "begin_at": begin_at[0],
            "count_from": count_from,
            "end_at": count_from + seconds,
        }

    said = run_in_sites(bed, LINK_LOAD, dict.fromkeys(site for edge in edges for site in edge), plan)
    measured = {edge: _goodput(bed, edge, held[edge].rate_bps, said) for edge in edges}
    if not any(each.delivered_bps for each in measured.values()):
        raise RingroadError("nothing came over any link", "are the pairs routed over their own links?")
    return measured


def carried(bed: Testbed, seconds: float = 3.0) -> dict[Edge, Goodput]:
    """As `goodput` of all edges; where links have delays, one direction of each first and then the other.

    Acknowledgements that wait behind data make a long round trip so much longer that TCP takes minutes to fill a link
    which is loaded both ways: it would be TCP that is measured, not the link.
    """
    forward = [link.edges[0] for link in bed.wan.links]
    if not any(status.properties.delay_s for status in bed.links()) or not bed.capabilities.netem:
        return goodput(bed, seconds=seconds)
    backward = [edge[::-1] for edge in forward]
    return goodput(bed, forward, seconds, lossless=True) | goodput(bed, backward, seconds, lossless=True)


def flows_over(there: EdgeProperties, back_s: float, lossless: bool) -> Flows:
    """What loads an edge whose acknowledgements take `back_s` on their way."""
    number = FLOWS_IN_VIRTUAL_TIME if in_virtual_time() else FLOWS
    if not lossless:
        return Flows(number)
    under_way = there.rate_bps / 8 * (there.delay_s + back_s + QUEUE_S / 2)
    number = min(number, max(1, int(under_way / (FEWEST_FRAMES * FRAME_BYTES))))
    return Flows(number, max(FEWEST_FRAMES * FRAME_BYTES, round(under_way / number)))


def _goodput(bed: Testbed, edge: Edge, rate_bps: float, said: Mapping[str, Any]) -> Goodput:
    source, target = edge
    received = said[target]["received"].get(bed.site(source).ip, 0)
    again = said[source]["retransmits"].get(bed.site(target).ip, 0)
    return Goodput(edge, rate_bps, received * 8 / said[target]["counted_s"], again)


@contextmanager
def pinned_to_edges(bed: Testbed, edges: Collection[Edge] | None = None) -> Iterator[None]:
    """As long as the context lasts each pair of neighbors talks over the link between them, both ways."""
    edges = list(bed.wan.edges if edges is None else edges)
    both = sorted({pair for a, b in edges for pair in ((a, b), (b, a))})
    if bed.controller is None:
        route_neighbors(bed)
        yield
        return
    for pair in both:
        bed.controller.pin(pair, pair)
    try:
        yield
    finally:
        for pair in both:
            bed.controller.unpin(pair)


def route_neighbors(bed: Testbed) -> None:
    """Give switches that have no controller the rules for neighbors to talk, each pair over its own link."""
    rules: dict[str, list[str]] = {site.switch: [] for site in bed.plan.sites.values()}
    for (source, target), port in bed.plan.ports.items():
        here, there = bed.plan.sites[source], bed.plan.sites[target]
        rules[here.switch].append(f"in_port={HOST_PORT},dl_dst={there.mac},actions=output:{port.number}")
        rules[here.switch].append(f"in_port={port.number},dl_dst={here.mac},actions=output:{HOST_PORT}")
    for switch, lines in rules.items():
        with tempfile.NamedTemporaryFile("w", dir=bed.state) as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            openvswitch.run(["ovs-ofctl", "-O", openvswitch.PROTOCOL, "add-flows", switch, file.name])
