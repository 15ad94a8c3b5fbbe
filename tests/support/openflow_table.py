"""Switches in memory: they apply the planner's changes one message at a time, and a packet can be traced through.

After FAUCET's `fakeoftable`: what an update does to packets is seen after every message, without a switch or root.
What OpenFlow 1.3 says of add, modify and delete, of groups and their liveness, and of sending back by the port that a
packet came in by, holds here too; what a switch would refuse is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from controller.engine import Engine
from controller.rules import (
    Action,
    Batch,
    Change,
    Group,
    GroupChange,
    Held,
    Output,
    OutputBack,
    OutputGroup,
    Rule,
    RuleChange,
    SetDestination,
    is_our_group,
)
from controller.settings import Wiring
from controller.view import Pair, Route
from topologies import Edge


class PacketLost(AssertionError):
    """A packet met no rule, a rule or group that drops, a port that is down or has no link, or the wrong host."""


class PacketLooped(AssertionError):
    """A packet came to the same switch by the same port with the same address a second time."""


class Refused(AssertionError):
    """A switch would answer a message with an error."""


class SwitchTable:
    """Flow table and group table of one switch, with the strict semantics of add, modify and delete."""

    def __init__(self) -> None:
        self.rules: dict[tuple, Rule] = {}
        self.groups: dict[int, Group] = {}

    def apply(self, change: Change) -> None:
        if isinstance(change, GroupChange):
            self._apply_group(change)
        else:
            self._apply_rule(change)

    def _apply_rule(self, change: RuleChange) -> None:
        key = (change.rule.priority, change.rule.match)
        if change.operation == "delete":
            self.rules.pop(key, None)
        elif change.operation == "add" or key in self.rules:
            self._check(change.rule.actions)
            self.rules[key] = change.rule

    def _apply_group(self, change: GroupChange) -> None:
        number, exists = change.group.number, change.group.number in self.groups
        if change.operation == "delete":
            self.groups.pop(number, None)
            self.rules = {k: rule for k, rule in self.rules.items() if OutputGroup(number) not in rule.actions}
            return
        if exists == (change.operation == "add"):
            raise Refused(f"{change.operation} of group {number:#x}, which {'exists' if exists else 'does not exist'}")
        for bucket in change.group.buckets:
            self._check(bucket.actions)
        self.groups[number] = change.group

    def _check(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            if isinstance(action, OutputGroup) and action.number not in self.groups:
                raise Refused(f"no group {action.number:#x} to hand over to")

    def lookup(self, in_port: int, eth_dst: str) -> Rule | None:
        fitting = [
            rule
            for rule in self.rules.values()
            if not rule.match.others and rule.match.in_port in (None, in_port) and rule.match.eth_dst in (None, eth_dst)
        ]
        return max(fitting, key=lambda rule: rule.priority, default=None)

    def forward(self, in_port: int, eth_dst: str, dead_ports: set[int]) -> tuple[int | None, str]:
        """Where a packet leaves, None if nowhere, and with what destination address."""
        rule = self.lookup(in_port, eth_dst)
        return self._run(rule.actions if rule else (), in_port, eth_dst, dead_ports)

    def _run(self, actions: tuple[Action, ...], in_port: int, eth_dst: str, dead: set[int]) -> tuple[int | None, str]:
        for action in actions:
            if isinstance(action, SetDestination):
                eth_dst = action.mac
            elif isinstance(action, Output):
                return (None if action.port == in_port else action.port), eth_dst
            elif isinstance(action, OutputBack):
                return in_port, eth_dst
            elif isinstance(action, OutputGroup):
                live = (b for b in self.groups[action.number].buckets if b.watch_port not in dead)
                bucket = next(live, None)
                return self._run(bucket.actions, in_port, eth_dst, dead) if bucket else (None, eth_dst)
        return None, eth_dst


class Switchboard:
    """All switches of a WAN, each with a queue of messages not worked on yet; serves an engine as its `Switches`."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.tables = {site: SwitchTable() for site in wiring.dpids}
        self.queues: dict[str, deque[Change | Batch]] = {site: deque() for site in wiring.dpids}
        self.period_s: float | None = None
        self.wakes: list[tuple[float, Callable[[], None]]] = []
        self.down: set[Edge] = set()
        """Ports, as (site, neighbor), that are down; whatever is sent out of them or would come in is lost."""
        self._beyond = {(site, port): neighbor for (site, neighbor), port in wiring.ports.items()}

    def send(self, batch: Batch) -> None:
        self.queues[batch.site].extend([*batch.changes, batch])

    def set_period(self, period_s: float) -> None:
        self.period_s = period_s

    def wake(self, after_s: float, callback: Callable[[], None]) -> None:
        """As an engine's `Switches`; the test calls what it wants of `wakes`."""
        self.wakes.append((after_s, callback))

    def defer(self, callback: Callable[[], None]) -> None:
        callback()

    def busy(self) -> list[str]:
        """Sites whose switch has messages waiting."""
        return [site for site, queue in self.queues.items() if queue]

    def settle(self, engine: Engine) -> None:
        """Every switch does all that it was told, and confirms it, until none has anything waiting."""
        while busy := self.busy():
            if finished := self.work(busy[0]):
                engine.confirmed(finished)

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
            self.tables[site] = SwitchTable()

    def held(self, site: str) -> Held:
        """What a controller reads from a switch: all of it that is in our number spaces."""
        table = self.tables[site]
        rules = tuple(rule for rule in table.rules.values() if rule.cookie >> 56 == 0x52)
        return Held(rules, tuple(group for group in table.groups.values() if is_our_group(group.number)))

    def fail(self, link: Edge) -> None:
        """Both ends of a link go down."""
        self.down |= {link, link[::-1]}

    def heal(self, link: Edge) -> None:
        """Both ends come up again."""
        self.down -= {link, link[::-1]}

    def ports_down(self, site: str) -> frozenset[Edge]:
        """Those of one switch, as (site, neighbor)."""
        return frozenset(edge for edge in self.down if edge[0] == site)

    def trace(self, pair: Pair) -> Route:
        """The sites that a packet of the pair passes until it is at the right host; PacketLost, PacketLooped if not."""
        source, target = pair
        site, port = source, self.wiring.hosts[source].port
        eth_dst, route = self.wiring.hosts[target].mac, [source]
        seen = set()
        while True:
            if (site, port, eth_dst) in seen:
                raise PacketLooped(f"{source}-{target}: looped: {route}")
            seen.add((site, port, eth_dst))
            dead = {self.wiring.ports[edge] for edge in self.down if edge[0] == site}
            out, eth_dst = self.tables[site].forward(port, eth_dst, dead)
            host = self.wiring.hosts[site]
            if out == host.port and (site, eth_dst) == (target, host.mac):
                return tuple(route)
            after = self._beyond.get((site, out))
            if after is None or (site, after) in self.down or (after, site) in self.down:
                raise PacketLost(f"{source}-{target}: lost after {route}, at port {out} of {site}")
            site, port = after, self.wiring.ports[after, site]
            route.append(site)
