"""TCP buffers in the DCs that no path of the WAN is too long or too fast for. Pure.

A sender keeps as much under way as fits its own buffer and the receiver's. Where that is less than rate × round trip,
the buffers and not the WAN set the pace.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

from testbed.emulation.interfaces import TcpSettings
from topologies import Wan

MARGIN = 4
"""Times rate × round trip: the kernel counts its own book-keeping in a buffer and advertises half of it at most, and
queues, detours and rates above the WAN's own take their part."""

MOST_BYTES = 2**30


def sized_for(tcp: TcpSettings, wan: Wan) -> TcpSettings:
    """The same settings, with upper limits of the buffers raised to what the WAN may keep under way."""
    needed = min(MOST_BYTES, math.ceil(MARGIN * bandwidth_delay_bytes(wan)))
    return replace(
        tcp,
        receive_buffer_bytes=_at_least(tcp.receive_buffer_bytes, needed),
        send_buffer_bytes=_at_least(tcp.send_buffer_bytes, needed),
    )


def bandwidth_delay_bytes(wan: Wan) -> float:
    """The fastest edge's rate × the longest round trip between two sites by the ways of least delay."""
    fastest_bps = max(properties.rate_bps for properties in wan.edges.values())
    return fastest_bps / 8 * 2 * max(_farthest_s(wan, site.name) for site in wan.sites)


def _farthest_s(wan: Wan, source: str) -> float:
    """Dijkstra's algorithm over delays: to the site that is farthest from `source`."""
    ways: dict[str, list[tuple[str, float]]] = {}
    for (a, b), properties in wan.edges.items():
        ways.setdefault(a, []).append((b, properties.delay_s + properties.jitter_s))
    reached: dict[str, float] = {}
    waiting = [(0.0, source)]
    while waiting:
        delay_s, site = heapq.heappop(waiting)
        if site in reached:
            continue
        reached[site] = delay_s
        for target, more_s in ways.get(site, ()):
            heapq.heappush(waiting, (delay_s + more_s, target))
    return max(reached.values())


def _at_least(buffer_bytes: tuple[int, int, int], most: int) -> tuple[int, int, int]:
    least, initial, maximum = buffer_bytes
    return least, initial, max(maximum, most)
