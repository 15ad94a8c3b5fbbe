"""What the page has to know of a running testbed, kept from what its control socket tells. Pure; memory is bounded.

A page that opens gets a beginning and all that followed; what is forgotten of the latter goes into the former. So any
two pages that have seen the same version show the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.live import protocol
from testbed.live.web import events
from testbed.live.web.events import Event, Numbers
from topologies.model import EdgeProperties, Link, Site, Wan

KEPT_EVENTS = 1200
CARRIED_EVERY_S = 0.45
"""Loads are told no more often than this: people see no more, and each costs a redraw."""
HEALING = frozenset({"heal", "restart"})


def wan_of(snapshot: protocol.Snapshot) -> Wan:
    """The WAN with its own rates, as the testbed tells it."""
    own = {
        (each.source, each.target): EdgeProperties(each.own_rate_bps, each.delay_s, each.jitter_s, each.loss)
        for each in snapshot.links
    }
    return Wan(
        snapshot.wan,
        tuple(Site(site.name, site.kind, site.latitude, site.longitude) for site in snapshot.sites),  # type: ignore[arg-type]
        tuple(Link(link.a, link.b, own[link.a, link.b], own[link.b, link.a], link.name) for link in snapshot.wan_links),
    )


class Mirror:
    """The state behind every page. One thread at a time."""

    def __init__(self, snapshot: protocol.Snapshot) -> None:
        """As of `snapshot`, with what it tells of the past."""
        self.wan = wan_of(snapshot)
        self._numbers = Numbers(self.wan)
        self.version = snapshot.seq
        self._snapshot = snapshot
        past = sorted(
            [*map(self._collective, snapshot.collectives), *map(_logged, snapshot.log)], key=lambda event: event["at"]
        )
        began_at = past[0]["at"] if past else snapshot.now
        self._began_at = began_at
        self._base: dict[str, Event] = {
            "edges": self._edges(began_at, snapshot.links),
            "routes": self._routes(began_at, snapshot.routes),
            "ring": events.ring(began_at, self._numbers.route(snapshot.ring.order)),
            "settings": _settings(began_at, snapshot.control),
            "workers": self._workers(began_at, snapshot.workers),
        }
        self._now = {tuple(move[:2]): move[2] for move in self._base["routes"]["moves"]}
        self._history: deque[Event] = deque(past)
        self._carried: Event | None = None

    @property
    def now(self) -> float:
        """The testbed's clock when it told this."""
        return self._snapshot.now

    def scene(self) -> dict[str, Any]:
        """What does not change as long as the testbed runs."""
        return events.scene(
            self.wan,
            mode="live",
            title=self._snapshot.wan,
            subtitle=f"run {self._snapshot.run_id}{_on(self._snapshot.kernel)}",
            began_at=self._began_at,
            size_bytes=self._snapshot.workers.size_bytes,
        )

    def beginning(self) -> list[Event]:
        """All that a page that opens now has to apply, in order."""
        first = [events.at_first(event) for event in self._base.values()]
        return [*first, *self._history, *([self._carried] if self._carried else [])]

    def wants(self, kind: str, at: float) -> bool:
        """Whether an event of that kind is worth being read: loads come more often than they are shown."""
        return kind != "rates" or self._carried is None or at - self._carried["at"] >= CARRIED_EVERY_S

    def take(self, event: protocol.Event) -> list[Event]:
        """What pages have to be told of it."""
        self.version = event.seq
        told = list(self._told(event))
        for each in told:
            if each["kind"] == "carried":
                self._carried = each
            else:
                self._history.append(each)
        while len(self._history) > KEPT_EVENTS:
            self._fold(self._history.popleft())
        return told

    def _told(self, event: protocol.Event) -> Iterator[Event]:
        match event:
            case protocol.RatesEvent():
                rates = event.rates
                columns = [
                    [getattr(each, name) for each in rates] for name in ("carried_bps", "backlog_bytes", "drops")
                ]
                yield events.carried(event.at, *columns)
            case protocol.CollectiveEvent():
                yield self._collective(event.collective)
            case protocol.LinkEvent():
                yield events.said(self._edges(event.at, event.links), event.text)
            case protocol.ReconfigurationEvent():
                moves = [self._move(move.source, move.target, move.after) for move in event.moves]
                self._now |= {(a, b): route for a, b, route in moves}
                text = events.moved_text([(move.before, move.after) for move in event.moves], event.cause)
                yield events.said(events.routes(event.at, moves, event.cause, event.latency_s), text)
            case protocol.RoutesEvent():
                now = {(a, b): route for a, b, route in self._routes(event.at, event.routes)["moves"]}
                moves = [(a, b, route) for (a, b), route in now.items() if self._now.get((a, b)) != route]
                self._now = now
                if moves:
                    yield events.at_first(events.routes(event.at, moves))
            case protocol.RingChangeEvent():
                order = self._numbers.route(event.ring.order)
                took_s = event.measure_s + event.decide_s + event.agree_s
                yield events.said(events.ring(event.at, order, changed=event.changed, took_s=took_s), event.text)
            case protocol.ArmEvent():
                yield events.said(_settings(event.at, event.control), event.text)
            case protocol.WorkersEvent():
                yield events.said(self._workers(event.at, event.workers), event.text, "info")
            case protocol.FaultEvent():
                yield events.note(event.at, event.text, "heal" if event.what in HEALING else "fault")
            case _ if event.text:
                yield events.note(event.at, event.text)

    def _fold(self, event: Event) -> None:
        """What is forgotten as an event stays true as the beginning."""
        kind, base = event["kind"], self._base.get(event["kind"])
        if base is None:
            return
        if kind == "edges":
            known = {edge: (rate_bps, state) for edge, rate_bps, state in base["set"]}
            known |= {edge: (rate_bps, state) for edge, rate_bps, state in event["set"]}
            self._base[kind] = events.edges(event["at"], known)
        elif kind == "routes":
            moved = {tuple(move[:2]): move for move in [*base["moves"], *event["moves"]]}
            self._base[kind] = events.routes(event["at"], moved.values())  # type: ignore[arg-type]
        else:
            self._base[kind] = base | {key: value for key, value in event.items() if key not in ("text", "tone")}

    def _collective(self, each: protocol.Collective) -> Event:
        return events.collective(each.end, each.time_s, each.limit_s, each.arm)

    def _edges(self, at: float, links: Sequence[protocol.EdgeState]) -> Event:
        def state(each: protocol.EdgeState) -> str:
            return events.DOWN if not each.up else events.BLACKHOLE if each.blackholed else events.UP

        numbers = self._numbers.edges
        return events.edges(at, {numbers[each.source, each.target]: (each.rate_bps, state(each)) for each in links})

    def _routes(self, at: float, routes: Sequence[protocol.Route]) -> Event:
        return events.routes(at, [self._move(each.source, each.target, each.path) for each in routes])

    def _move(self, source: str, target: str, path: Sequence[str]) -> tuple[int, int, list[int]]:
        return self._numbers.sites[source], self._numbers.sites[target], self._numbers.route(path)

    def _workers(self, at: float, workers: protocol.Workers) -> Event:
        crashed = self._numbers.route(workers.crashed)
        return {"kind": "workers", "at": at, "state": workers.state, "crashed": crashed, "reason": workers.reason}


def _on(kernel: protocol.KernelInfo | None) -> str:
    return "" if kernel is None else f", on {kernel.mode} (Linux {kernel.version})"


def _settings(at: float, control: protocol.Control) -> Event:
    return events.settings(at, arm=control.arm, reorder_every=control.reorder_every, t_wan_s=control.period_s)


def _logged(entry: protocol.LogEntry) -> Event:
    tones: Mapping[str, str] = {"reconfiguration": "routes", "ring_change": "ring", "fault": "fault", "arm": "settings"}
    return events.note(entry.at, entry.text, tones.get(entry.kind, "info"))
