"""Requests carried out: names looked up, parts told what to do, the reply in words. One method a request.

Everything that could be wrong with a request is found before anything is done, so that `check` is the first half of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from testbed.bed import Testbed
from testbed.kernels.inside import ran_on
from testbed.live import requests as ask
from testbed.live.hub import Hub
from testbed.live.loop import Loop
from testbed.live.network import LiveNetwork, find_dc, find_link
from testbed.live.protocol import (
    PROTOCOL,
    ArmEvent,
    Done,
    FaultEvent,
    KernelInfo,
    LinkInfo,
    Place,
    Ring,
    SiteInfo,
    Snapshot,
    Workers,
    to_json,
)
from testbed.live.steering import Steering
from testbed.live.tracing import Tracing
from topologies.errors import InputError, RingroadError
from topologies.model import Link, Site
from topologies.units import format_duration

REORDERING_ARMS = ("ccl", "joint")

Act = Callable[[], tuple[str, list[str]]]
"""Does what was asked for; says what it did, and the names that it touched."""


@dataclass
class Parts:
    """What a live testbed is made of. `loop` is None without workers; `stop` begins to take it down.

    `run_id` and `pid` are those that the machine knows it by: in a user-mode kernel, of who booted that.
    """

    bed: Testbed
    hub: Hub
    network: LiveNetwork
    steering: Steering
    tracing: Tracing
    loop: Loop | None
    stop: Callable[[], None]
    started: str
    run_id: str
    pid: int
    dashboard: str | None = None

    def show_at(self, address: str | None) -> None:
        """The dashboard is there; None: it has died, which people are told."""
        self.dashboard = address
        if address is None:
            text = "the dashboard has died; begin another: ringroad dashboard"
            self.hub.publish(FaultEvent, text, what="dashboard", targets=())


class Operations:
    """Any thread may ask."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._wan = parts, parts.bed.wan

    def carry_out(self, request: ask.Request) -> dict[str, Any]:
        """Do it; the reply as JSON. InputError or RingroadError for what cannot be done, and then nothing was."""
        match request:
            case ask.Snapshot():
                return to_json(self.snapshot(self._parts.hub.recent()))
            case ask.Names():
                return self._names()
            case ask.Where():
                return to_json(self._where(request))
            case ask.Check():
                self._prepared(ask.read_request(request.request))
                return {"right": True}
        did, targets = self._prepared(request)()
        return to_json(Done(did, time.monotonic(), tuple(targets)))

    def snapshot(self, recent: dict[str, Any]) -> Snapshot:
        """All that is known now; `recent` is the hub's part."""
        parts, wan = self._parts, self._wan
        loop = parts.loop
        return Snapshot(
            protocol=PROTOCOL,
            now=time.monotonic(),
            run_id=parts.run_id,
            pid=parts.pid,
            started=parts.started,
            wan=wan.name,
            sites=tuple(self._site(site) for site in wan.sites),
            wan_links=tuple(LinkInfo(link.name, link.a, link.b) for link in wan.links),
            links=parts.network.links(),
            routes=parts.steering.routes(),
            ring=loop.ring if loop else Ring(wan.dcs, 0, False),
            control=parts.steering.control,
            workers=loop.workers if loop else Workers("off"),
            trace=parts.tracing.state,
            notes=tuple(parts.bed.notes),
            dashboard=parts.dashboard,
            kernel=KernelInfo(**ran_on()),
            **recent,
        )

    def _site(self, site: Site) -> SiteInfo:
        return SiteInfo(site.name, site.kind, site.latitude, site.longitude, self._parts.bed.site(site.name).ip)

    def _names(self) -> dict[str, list[str]]:
        wan = self._wan
        return {
            "sites": [site.name for site in wan.sites],
            "dcs": list(wan.dcs),
            "links": [link.name for link in wan.links],
        }

    def _where(self, request: ask.Where) -> Place:
        bed = self._parts.bed
        if request.link is not None:
            link = find_link(self._wan, request.link)
            edge = link.edges[0] if isinstance(request.link, str) else (request.link[0], request.link[1])
            return Place(bed.run_id, interface=bed.plan.ports[edge].interface)
        site = bed.site(request.site or "")
        return Place(bed.run_id, netns_pid=site.netns_pid, ip=site.ip)

    def _prepared(self, request: ask.Request) -> Act:
        """Everything looked up and checked; what is left is to do it."""
        network, wan = self._parts.network, self._wan
        match request:
            case ask.Fail():
                return self._on_link(network.fail, find_link(wan, request.link))
            case ask.Blackhole():
                return self._on_link(network.blackhole, find_link(wan, request.link))
            case ask.Heal():
                return self._heal(request)
            case ask.Isolate():
                dc = find_dc(wan, request.dc)
                return lambda: network.isolate(dc)
            case ask.Shape():
                return self._shape(request)
            case ask.Flap():
                link = find_link(wan, request.link)
                return lambda: (network.flap(link, request.period, request.duration), [link.name])
            case ask.Crash() | ask.Restart():
                return self._worker(request)
            case ask.Arm():
                return lambda: self._arm(request.arm)
            case ask.Reorder():
                loop = self._workers()
                return lambda: self._reorder(loop, request.every)
            case ask.RingOrder():
                return self._ring(self._workers(), request.order)
            case ask.TWan():
                return lambda: self._t_wan(request.period)
            case ask.Trace():
                return self._trace(request)
            case ask.Dashboard():
                return lambda: self._dashboard(request.address)
            case ask.Down():
                return self._down
        raise InputError("this changes nothing that could be checked", value=getattr(request, "op", None))

    @staticmethod
    def _on_link(act: Callable[[Link], str], link: Link) -> Act:
        return lambda: (act(link), [link.name])

    def _heal(self, request: ask.Heal) -> Act:
        network, wan = self._parts.network, self._wan
        if request.link is not None:
            link = find_link(wan, request.link)
            return lambda: network.heal([link], link.name)
        if request.site is not None:
            site = wan.site(request.site).name
            links = [link for link in wan.links if site in (link.a, link.b)]
            return lambda: network.heal(links, site)
        return lambda: network.heal(wan.links, "all links")

    def _shape(self, request: ask.Shape) -> Act:
        link = find_link(self._wan, request.link)
        given = {
            "rate_bps": request.rate,
            "delay_s": request.delay,
            "jitter_s": request.jitter,
            "loss": request.loss,
        }
        changed = {name: value for name, value in given.items() if value is not None}
        direction = None if request.one_way is None else (request.one_way[0], request.one_way[1])
        self._parts.network.check_shape(link, direction, changed)
        return lambda: (self._parts.network.shape(link, direction, changed), [link.name])

    def _workers(self) -> Loop:
        if self._parts.loop is None:
            raise RingroadError("this testbed has no workers", "bring it up with --workers")
        return self._parts.loop

    def _worker(self, request: ask.Crash | ask.Restart) -> Act:
        loop, dc = self._workers(), find_dc(self._wan, request.dc)
        act, text = (
            (loop.crash, f"the worker of {dc} is killed")
            if isinstance(request, ask.Crash)
            else (loop.restart, f"the worker of {dc} comes back")
        )

        def done() -> tuple[str, list[str]]:
            act(dc)
            self._parts.hub.publish(FaultEvent, text, what=request.op, targets=(dc,))
            return text, [dc]

        return done

    def _arm(self, arm: str) -> tuple[str, list[str]]:
        control, loop = self._parts.steering.set_arm(arm), self._parts.loop
        if loop is not None:
            if arm in REORDERING_ARMS:
                loop.set_every(control.reorder_every)
            else:
                loop.set_every(0)
                loop.back_to_start()
        ring = f"the ring agent acts every {control.reorder_every} collectives" if control.reorder_every else "no agent"
        ring = ring if arm in REORDERING_ARMS else "the ring stays"
        return self._controlled(f"arm {arm}: paths by {control.policy}, {ring}", [arm])

    def _reorder(self, loop: Loop, every: int) -> tuple[str, list[str]]:
        control = self._parts.steering.set_reorder_every(every)
        acts = control.arm in REORDERING_ARMS
        if acts:
            loop.set_every(every)
        how = f"every {every} collectives" if every else "never"
        later = "" if acts else f"; not in the arm {control.arm}, which leaves the ring alone"
        return self._controlled(f"the ring agent acts {how}{later}", [])

    def _t_wan(self, period_s: float) -> tuple[str, list[str]]:
        self._parts.steering.set_period(period_s)
        return self._controlled(f"the WAN controller looks every {format_duration(period_s)}", [])

    def _controlled(self, text: str, targets: list[str]) -> tuple[str, list[str]]:
        self._parts.hub.publish(ArmEvent, text, control=self._parts.steering.control)
        return text, targets

    def _ring(self, loop: Loop, order: list[str] | None) -> Act:
        if order is None:

            def unpinned() -> tuple[str, list[str]]:
                loop.unpin()
                text = "the ring is the agent's again"
                self._parts.hub.publish(FaultEvent, text, what="ring", targets=())
                return text, []

            return unpinned
        names = [find_dc(self._wan, name) for name in order]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{twice} stands twice in the ring", remedy="name every DC once")
        missing = [dc for dc in self._wan.dcs if dc not in names]
        if missing:
            raise InputError(f"the ring lacks {', '.join(missing)}", remedy="name every DC once")

        def pinned() -> tuple[str, list[str]]:
            loop.pin(names)
            return f"the ring is {' → '.join(names)}, and stays so", names

        return pinned

    def _trace(self, request: ask.Trace) -> Act:
        tracing = self._parts.tracing
        if request.action == "stop":
            return lambda: (tracing.stop(), [])
        trace = None if request.trace is None else tracing.read(request.trace)
        if trace is None and tracing.state.name is None:
            raise RingroadError("no trace has been given", "give one: ringroad trace FILE")
        return lambda: (tracing.start(trace), [])

    def _dashboard(self, address: str | None) -> tuple[str, list[str]]:
        self._parts.show_at(address)
        return ("the dashboard is there" if address else "the dashboard is not there any more"), []

    def _down(self) -> tuple[str, list[str]]:
        self._parts.stop()
        return "the testbed is being taken down", [self._parts.run_id]
