"""Figures of the emulated WAN: do all links carry their rates at once, and what does a change of a rate cost?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.figure import Figure, Reach, figure, worst_of
from benchmarks.flow import steady_flow
from testbed.bed import Testbed
from testbed.measure import goodput, pinned_to_edges
from topologies.model import EdgeProperties
from topologies.wanfile import load_wan

GOODPUT_S = {10e6: 20.0, 50e6: 8.0, 100e6: 8.0}
"""For how long each rate, in bit/s, is measured."""
GOODPUT = Reach(at_least=0.97, at_most=1.005)
"""1.00, and half a percent for what a queue held before the first second that counts and delivered in it."""
CHANGES = 500
CHANGING_EDGE = ("tokyo", "oregon")
FLOW_BPS = 30e6
LOW_BPS, HIGH_BPS = 40e6, 100e6
"""Both above the flow, so that no packet is lost because a link is full."""


def goodput_of_all_links() -> Iterator[Figure]:
    """Every link of mesh4 loaded at once, at three rates."""
    with Testbed(load_wan("mesh4")) as bed, pinned_to_edges(bed):
        for rate_bps, seconds in GOODPUT_S.items():
            bed.shape_many({edge: EdgeProperties(rate_bps) for edge in bed.wan.edges})
            ratios = [measured.ratio for measured in goodput(bed, seconds=seconds).values()]
            name = f"goodput of {len(ratios)} directions of mesh4 at once, {rate_bps / 1e6:g} Mbit/s each"
            yield worst_of(name, ratios, "", "set rate", GOODPUT)


def rate_changes() -> Iterator[Figure]:
    """A link's rate changed again and again under a flow: how long, what is lost, what else changes?"""
    with (
        Testbed(load_wan("mesh4")) as bed,
        pinned_to_edges(bed, [CHANGING_EDGE]),
        steady_flow(bed, CHANGING_EDGE, FLOW_BPS),
    ):
        before = {status.edge: status for status in bed.links()}
        took_s = []
        for number in range(CHANGES):
            called_at = time.monotonic()
            bed.shape(CHANGING_EDGE, rate_bps=(LOW_BPS, HIGH_BPS)[number % 2], direction=CHANGING_EDGE)
            took_s.append(time.monotonic() - called_at)
        after = {status.edge: status for status in bed.links()}
    wanted = {edge: status.properties for edge, status in before.items()}
    wanted[CHANGING_EDGE] = EdgeProperties(HIGH_BPS)
    changed = sum(after[edge].properties != wanted[edge] for edge in wanted)
    dropped = sum(after[edge].queue_drops - before[edge].queue_drops for edge in wanted)
    nothing = Reach(at_least=0, at_most=0)
    median_ms = statistics.median(took_s) * 1e3
    yield figure("rate change, call → kernel holds it, median", median_ms, "ms", f"{CHANGES} calls", Reach(at_most=2))
    yield figure("rate change, packets dropped", dropped, "packets", f"{CHANGES} changes under a TCP flow", nothing)
    yield figure("rate change, other settings lost", changed, "links", "settings before", nothing)
