"""Switches in memory: they apply the planner's rule changes one message at a time, and a packet can be traced through.

After FAUCET's `fakeoftable`: what an update does to packets is seen after every message, without a switch or root.
"""

from __future__ import annotations

from collections import deque

from controller.rules import Batch, Output, Rule, RuleChange, SetDestination
from controller.settings import Wiring
from controller.view import Pair, Route


class PacketLost(AssertionError):
    """A packet met no rule, a rule that drops, a port without a link, the wrong host, or a site twice."""


class FlowTable:
    """One table of one switch, with OpenFlow 1.3's strict semantics of add, modify and delete."""

    def __init__(self) -> None:
        self.rules: dict[tuple, Rule] = {}

    def apply(self, change: RuleChange) -> None:
        key = (change.rule.priority, change.rule.match)
        if change.operation == "add" or (change.operation == "modify" and key in self.rules):
            self.rules[key] = change.rule
        elif change.operation == "delete":
            self.rules.pop(key, None)

    def lookup(self, in_port: int, eth_dst: str) -> Rule | None:
        fitting = [
            rule
            for rule in self.rules.values()
            if rule.match.in_port in (None, in_port) and rule.match.eth_dst in (None, eth_dst)
        ]
        return max(fitting, key=lambda rule: rule.priority, default=None)


class Switchboard:
    """All switches of a WAN, each with a queue of messages not worked on yet; serves an engine as its `Switches`."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.tables = {site: FlowTable() for site in wiring.dpids}
        self.queues: dict[str, deque[RuleChange | Batch]] = {site: deque() for site in wiring.dpids}
        self.period_s: float | None = None
        self._beyond = {(site, port): neighbor for (site, neighbor), port in wiring.ports.items()}

    def send(self, batch: Batch) -> None:
        self.queues[batch.site].extend([*batch.changes, batch])

    def set_period(self, period_s: float) -> None:
        self.period_s = period_s

    def busy(self) -> list[str]:
        """Sites whose switch has messages waiting."""
        return [site for site, queue in self.queues.items() if queue]

    def work(self, site: str) -> Batch | None:
        """The switch takes one message; the batch it has finished with it, if that was its barrier."""
        message = self.queues[site].popleft()
        if isinstance(message, Batch):
            return message
        self.tables[site].apply(message)
        return None

    def lose(self, site: str, empty: bool = False) -> None:
        """The connection goes with what is in it; an `empty` switch comes back without rules."""
        self.queues[site].clear()
        if empty:
            self.tables[site] = FlowTable()

    def trace(self, pair: Pair) -> Route:
        """The sites that a packet of the pair passes until it is at the right host. PacketLost otherwise."""
        source, target = pair
        site, port = source, self.wiring.hosts[source].port
        eth_dst, route = self.wiring.hosts[target].mac, [source]
        while True:
            rule = self.tables[site].lookup(port, eth_dst)
            out = None
            for action in rule.actions if rule else ():
                if isinstance(action, SetDestination):
                    eth_dst = action.mac
                elif isinstance(action, Output):
                    out = action.port
            host = self.wiring.hosts[site]
            if out == host.port and (site, eth_dst) == (target, host.mac):
                return tuple(route)
            if (site, out) not in self._beyond or self._beyond[site, out] in route:
                raise PacketLost(f"{source}-{target}: lost or looped after {route}, at port {out} of {site}")
            after = self._beyond[site, out]
            site, port = after, self.wiring.ports[after, site]
            route.append(site)
