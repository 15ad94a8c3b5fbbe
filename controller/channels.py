"""The connections to the switches: batches and counter requests go out, confirmations and counters come back.

Each switch has an outbox and a green thread of its own, so that one that reads slowly holds up nobody else. Decides
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller import ofmsgs
from controller.rules import Batch, Group, Held, Rule
from controller.stack import chosen
from controller.view import Pair

if TYPE_CHECKING:
    from controller.engine import Engine

MAX_WAITING = 10_000
"""Messages in the outbox of a switch that does not read; beyond it the switch is disconnected."""

DEFER_S = 0.002
"""What can wait does so for long enough that the writers of every switch have had their turn."""


@dataclass
class _Sent:
    batch: Batch
    xids: tuple[int, ...]
    refusal: str = ""


@dataclass
class _Reading:
    """What a switch has said so far of what it holds, and who wants to know."""

    request: ofmsgs.ReadRequest
    done: Callable[[Held], None]
    waiting: set[int]
    rules: list[Rule] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


class Channel:
    """One connected switch. `in_use` once it has been read."""

    def __init__(self, site: str, datapath: Any) -> None:
        self.site, self.datapath = site, datapath
        self.in_use = False
        self._reading: _Reading | None = None
        self._challenges: dict[int, Any] = {}
        self._unconfirmed: dict[int, _Sent] = {}
        self._outbox = chosen().hub.Queue()
        self._writer = chosen().hub.spawn(self._write)

    def send(self, batch: Batch) -> None:
        """Queue the batch with a barrier behind it."""
        encoded = ofmsgs.encode_batch(self.datapath, batch)
        self._unconfirmed[encoded.barrier_xid] = _Sent(batch, encoded.xids)
        self._queue(encoded.data)

    def ask_counters(self, version: int) -> None:
        """Queue a request for the counters of ingress rules."""
        self._queue(ofmsgs.encode_counters_request(self.datapath, version))

    def read(self, done: Callable[[Held], None]) -> None:
        """Ask what the switch holds, and call `done` with it."""
        request = ofmsgs.encode_read(self.datapath)
        self._reading = _Reading(request, done, {request.rules_xid, request.groups_xid})
        self._queue(request.data)

    def take_read(self, reply: Any) -> bool:
        """A multipart reply; False if it does not belong to `read`."""
        reading = self._reading
        if reading is None or reply.xid not in reading.waiting:
            return False
        if reply.xid == reading.request.rules_xid:
            reading.rules += ofmsgs.rules_of(reply)
        else:
            reading.groups += ofmsgs.groups_of(reply)
        if not ofmsgs.more_follows(reply):
            reading.waiting.remove(reply.xid)
        if not reading.waiting:
            self._reading, self.in_use = None, True
            reading.done(Held(tuple(reading.rules), tuple(reading.groups)))
        return True

    def answers(self, timeout_s: float) -> bool:
        """Whether the switch is still at the other end: wait until it has answered a barrier."""
        encoded = ofmsgs.encode_barrier(self.datapath)
        answered = self._challenges[encoded.barrier_xid] = chosen().hub.Event()
        self._queue(encoded.data)
        try:
            return bool(answered.wait(timeout=timeout_s))
        finally:
            del self._challenges[encoded.barrier_xid]

    def ask_port_counters(self) -> None:
        """Queue a request for the counters of all ports."""
        self._queue(ofmsgs.encode_ports_request(self.datapath))

    def take_confirmed(self, barrier_xid: int) -> _Sent | None:
        """The batch whose barrier was answered; None for a barrier that was no batch's."""
        if barrier_xid in self._challenges:
            self._challenges[barrier_xid].set()
        return self._unconfirmed.pop(barrier_xid, None)

    def mark_refused(self, xid: int, reason: str) -> bool:
        """Note that a change was refused; its batch shows it once the barrier is answered. False if it is not ours."""
        for sent in self._unconfirmed.values():
            if xid in sent.xids:
                sent.refusal = reason
                return True
        return False

    def close(self) -> None:
        """Disconnect; what is queued is dropped."""
        chosen().hub.kill(self._writer)
        self.datapath.close()

    def _queue(self, data: bytes) -> None:
        if self._outbox.qsize() >= MAX_WAITING:
            self.datapath.close()
            return
        self._outbox.put(data)

    def _write(self) -> None:
        while self.datapath.send(self._outbox.get()):
            pass


@dataclass
class _Round:
    """One poll of all switches: who has not answered yet, and what the others said."""

    waiting: set[str] = field(default_factory=set)
    counters: dict[Pair, int] = field(default_factory=dict)


class Channels:
    """All connected switches; the `Switches` of an engine."""

    def __init__(self) -> None:
        self._by_site: dict[str, Channel] = {}
        self._round = _Round()
        self._period_s = 0.0
        self._period_set = chosen().hub.Event()
        self._poller: Any = None
        self.engine: Engine

    def send(self, batch: Batch) -> None:
        """As `Switches.send`; a switch that has just gone gets nothing, and everything when it is back."""
        channel = self._by_site.get(batch.site)
        if channel:
            channel.send(batch)

    def defer(self, callback: Callable[[], None]) -> None:
        """As `Switches.defer`."""
        chosen().hub.spawn_after(DEFER_S, callback)

    def wake(self, after_s: float, callback: Callable[[], None]) -> None:
        """As `Switches.wake`."""
        chosen().hub.spawn_after(max(DEFER_S, after_s), callback)

    def set_period(self, period_s: float) -> None:
        """As `Switches.set_period`."""
        self._period_s = period_s
        self._period_set.set()
        if self._poller is None:
            self._poller = chosen().hub.spawn(self._poll_for_ever)

    def add(self, site: str, datapath: Any) -> Channel:
        """A switch is there, where none was."""
        channel = self._by_site[site] = Channel(site, datapath)
        return channel

    def at(self, site: str) -> Channel | None:
        """The channel of a site, if its switch is there."""
        return self._by_site.get(site)

    def remove(self, datapath: Any) -> Channel | None:
        """A connection is gone; its channel, None if it was refused or replaced before."""
        channel = self.of(datapath)
        if channel:
            del self._by_site[channel.site]
            channel.close()
            self._answered(channel.site)
        return channel

    def of(self, datapath: Any) -> Channel | None:
        """The channel of a connection, if it is in use."""
        return next((channel for channel in self._by_site.values() if channel.datapath is datapath), None)

    def ask_port_counters(self) -> set[str]:
        """Ask every switch that is there for the counters of its ports; the sites of those."""
        for channel in self._by_site.values():
            channel.ask_port_counters()
        return set(self._by_site)

    def take_counters(self, site: str, counters: dict[Pair, int], more_follows: bool) -> None:
        """A switch has answered the poll, or a part of it."""
        self._round.counters.update(counters)
        if not more_follows:
            self._answered(site)

    def _answered(self, site: str) -> None:
        if site in self._round.waiting:
            self._round.waiting.remove(site)
            if not self._round.waiting:
                self._end_round()

    def _end_round(self) -> None:
        counters, self._round = self._round.counters, _Round()
        self.engine.period_elapsed(counters)

    def _poll_for_ever(self) -> None:
        while True:
            self._period_set.clear()
            if self._period_set.wait(timeout=self._period_s):
                continue
            if self._round.waiting:
                self._end_round()
            self._round = _Round(waiting=set(self._by_site))
            for channel in self._by_site.values():
                channel.ask_counters(self.engine.state.network.plan.version)
            if not self._by_site:
                self._end_round()
