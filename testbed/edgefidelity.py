"""Do idle links delay, lose and reorder packets as they are set to? Judges what was measured. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from scipy.stats import binomtest

from testbed.fidelity import Tolerance, Verdict, verdict_of
from topologies.model import Edge, EdgeProperties, Link
from topologies.units import format_duration

RTT_SLACK_S = 0.001
"""What two hosts, two switches and a busy scheduler may add to any round trip."""

CONFIDENCE = 0.999
"""Of the interval for a probability: one link in a thousand that is right is blamed."""


@dataclass(frozen=True)
class EdgeProbe:
    """What became of `sent` packets on one directed edge. `delay_s` is the median one-way time of those that arrived.

    `overtook` counts packets that took less than half of the edge's delay: they waited for none.
    """

    edge: Edge
    properties: EdgeProperties
    sent: int
    lost: int
    delay_s: float
    overtook: int


def summarized(edge: Edge, properties: EdgeProperties, sent: int, arrived: Sequence[Sequence[float]]) -> EdgeProbe:
    """From numbers and one-way times of what arrived. The median of nothing is infinite."""
    times = [one_way_s for _, one_way_s in arrived]
    received = len({number for number, _ in arrived})
    overtook = sum(one_way_s < (properties.delay_s - properties.jitter_s) / 2 for one_way_s in times)
    median_s = statistics.median(times) if times else float("inf")
    return EdgeProbe(edge, properties, sent, sent - received, median_s, overtook)


def judge_edges(probes: Mapping[Edge, EdgeProbe], links: tuple[Link, ...], tolerance: Tolerance) -> Verdict:
    """Of round-trip times by link, and of loss and reordering by direction."""
    reasons = [reason for link in links if (reason := _round_trip(link, probes, tolerance))]
    for probe in probes.values():
        reasons += _share(probe, "loses", probe.lost, probe.sent, probe.properties.loss)
        arrived = probe.sent - probe.lost
        if probe.properties.delay_s > 2 * RTT_SLACK_S + probe.properties.jitter_s:
            reasons += _share(probe, "lets overtake", probe.overtook, arrived, probe.properties.reorder)
    worst = [_excess_s(link, probes) for link in links]
    figures = {
        "rtt_excess_s_max": max(worst, key=abs, default=0.0),
        "edges": [asdict(probe) for probe in probes.values()],
    }
    return verdict_of(reasons, figures)


def set_round_trip_s(link: Link, probes: Mapping[Edge, EdgeProbe]) -> float:
    """What the link's two delays add up to."""
    return math.fsum(probes[edge].properties.delay_s for edge in link.edges)


def _excess_s(link: Link, probes: Mapping[Edge, EdgeProbe]) -> float:
    return math.fsum(probes[edge].delay_s for edge in link.edges) - set_round_trip_s(link, probes)


def _round_trip(link: Link, probes: Mapping[Edge, EdgeProbe], tolerance: Tolerance) -> str:
    """What is wrong with the round trip over a link; empty if nothing is.

    The median of a uniform jitter over n packets strays by about jitter ÷ √n; four of these are granted.
    """
    wanted_s, excess_s = set_round_trip_s(link, probes), _excess_s(link, probes)
    strays_s = math.fsum(
        4 * probe.properties.jitter_s / math.sqrt(max(1, probe.sent - probe.lost))
        for probe in (probes[edge] for edge in link.edges)
    )
    if abs(excess_s) <= max(tolerance.rtt_error_max * wanted_s, RTT_SLACK_S) + strays_s:
        return ""
    if math.isinf(excess_s):
        return f"{link.a} ↔ {link.b}: no packet came through"
    return (
        f"{link.a} ↔ {link.b} takes {format_duration(wanted_s + excess_s)} for a round trip, set to "
        f"{format_duration(wanted_s)}"
    )


def _share(probe: EdgeProbe, verb: str, count: int, of: int, wanted: float) -> list[str]:
    """A reason unless so many of so many fit the probability that was set."""
    if of == 0:
        return []
    interval = binomtest(count, of).proportion_ci(CONFIDENCE, "exact")
    if interval.low <= wanted <= interval.high:
        return []
    where = f"{probe.edge[0]} → {probe.edge[1]}"
    return [f"{where} {verb} {count} of {of} packets, set to {wanted:.3g} of them"]
