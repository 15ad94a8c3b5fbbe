"""Reads the counters of every port again and again, where capacities are measured. Decides nothing.

The two ends of a directed edge are ports of two switches: what came out is counted at its end, what was dropped at its
head. A round ends when every switch has answered, or when the next begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from controller import ofmsgs
from controller.ceilings import Counters
from controller.settings import Wiring
from controller.stack import chosen
from topologies.model import Edge

if TYPE_CHECKING:
    from controller.channels import Channels
    from controller.engine import Engine

POLL_S = 0.2
"""Long enough that a period holds dozens of jumbo frames at 10 Mbit/s, short enough to see a burst's middle."""


def edge_counters(wiring: Wiring, ports: Mapping[tuple[str, int], ofmsgs.PortCounts]) -> dict[Edge, Counters]:
    """Of every edge whose two ports are among these, by site and port number."""
    waiting: Counter[str] = Counter()
    for (site, _), counts in ports.items():
        waiting[site] += counts.received_bytes - counts.sent_bytes
    found = {}
    for (source, target), port in wiring.ports.items():
        head = ports.get((source, port))
        end = ports.get((target, wiring.ports[target, source]))
        if head is not None and end is not None:
            found[source, target] = Counters(end.received_bytes, head.dropped, waiting[source])
    return found


class PortPolls:
    """The rounds, for as long as the process lives."""

    def __init__(self, channels: Channels, engine: Engine, wiring: Wiring) -> None:
        self._channels, self._engine, self._wiring = channels, engine, wiring
        self._waiting: set[str] = set()
        self._ports: dict[tuple[str, int], ofmsgs.PortCounts] = {}

    def start(self) -> None:
        """Poll from now on, in a green thread."""
        chosen().hub.spawn(self._poll_for_ever)

    def take(self, site: str, by_port: Mapping[int, ofmsgs.PortCounts], more_follows: bool) -> None:
        """A switch has answered, or a part of it."""
        self._ports.update({(site, port): counts for port, counts in by_port.items()})
        if not more_follows and site in self._waiting:
            self._waiting.remove(site)
            if not self._waiting:
                self._end_round()

    def _end_round(self) -> None:
        ports, self._ports, self._waiting = self._ports, {}, set()
        self._engine.ports_polled(edge_counters(self._wiring, ports))

    def _poll_for_ever(self) -> None:
        while True:
            chosen().hub.sleep(POLL_S)
            if self._waiting:
                self._end_round()
            self._waiting = self._channels.ask_port_counters()
