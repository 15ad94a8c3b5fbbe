"""The network of a live testbed: what is done to its links, what they are set to, and what they carry.

One owner of the changes made by hand and by a trace. Every change is told as the kernel holds it afterwards.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from testbed.bed import LinkStatus, Testbed
from testbed.live.hub import Hub
from testbed.live.protocol import RATES_EVERY_S, EdgeRate, EdgeState, FaultEvent, LinkEvent, RatesEvent
from topologies.errors import InputError, RingroadError, did_you_mean
from topologies.model import Edge, EdgeProperties, Link, Wan
from topologies.units import format_rate

SETTINGS = ("rate_bps", "delay_s", "jitter_s", "loss", "up", "blackholed")
"""What makes a link another one; what it carries does not."""

REMEMBERED_S = 600.0
"""How far back capacities are known, for the limits of collectives that take long."""

MAX_REMEMBERED = 5000
"""And how many changes of them at most."""

SHOWN_LINKS = 3

Segments = Sequence[tuple[float, Mapping[Edge, float]]]


def find_link(wan: Wan, ref: str | Sequence[str]) -> Link:
    """The link by its name, by `a-b` or by its two sites. InputError names the nearest one."""
    name = ref if isinstance(ref, str) else "-".join(ref)
    try:
        return wan.link(ref if isinstance(ref, str) else (ref[0], ref[1]))
    except InputError:
        known = [link.name for link in wan.links]
        both = known + [f"{b}-{a}" for a, b in (link.edges[0] for link in wan.links)]
        remedy = did_you_mean(name, both)
        raise InputError(
            f"no link {name} in {wan.name}", remedy=remedy if "?" in remedy else did_you_mean(name, known)
        ) from None


def find_dc(wan: Wan, name: str) -> str:
    """The name of a DC. InputError names the nearest one."""
    if name not in wan.dcs:
        kind = "a transit point, not a DC" if name in {site.name for site in wan.sites} else None
        message = f"{name} is {kind}" if kind else f"no DC {name} in {wan.name}"
        raise InputError(message, remedy=did_you_mean(name, list(wan.dcs)))
    return name


class LiveNetwork:
    """May be used from several threads. Nothing here waits for the controller."""

    def __init__(
        self, bed: Testbed, hub: Hub, *, on_heal: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        """`on_heal` is told when links come back by hand, `failed` when the kernel cannot be asked any more."""
        self.bed, self.wan = bed, bed.wan
        self._hub, self._on_heal, self._failed = hub, on_heal, failed
        self._lock = threading.RLock()
        self._wanted: dict[Edge, EdgeProperties] = dict(bed.wan.edges)
        self._states: dict[Edge, EdgeState] = {}
        self._sent: dict[Edge, int] = {}
        self._sampled_at = time.monotonic()
        self._flaps: dict[str, threading.Event] = {}
        self._capacities: deque[tuple[float, Mapping[Edge, float]]] = deque(maxlen=MAX_REMEMBERED)
        self._closed = threading.Event()
        self._look("")
        self._thread = threading.Thread(target=self._sample, name="rates", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End what goes on: flaps, sampling."""
        self._closed.set()
        for stop in list(self._flaps.values()):
            stop.set()
        self._thread.join()

    def links(self) -> tuple[EdgeState, ...]:
        """Every directed edge, as of the last quarter of a second."""
        with self._lock:
            return tuple(self._states.values())

    def capacities(self) -> Segments:
        """What edges could carry, by CLOCK_MONOTONIC seconds from which it held: 0 where a link was not up."""
        with self._lock:
            return list(self._capacities)

    def fail(self, link: Link) -> str:
        """Take it down."""
        with self._lock:
            self._stop_flap(link)
            self.bed.fail(link)
            return self._done("fail", [link.name], f"{link.name} is down, both ways")

    def blackhole(self, link: Link) -> str:
        """Let nothing pass."""
        with self._lock:
            self._stop_flap(link)
            self.bed.blackhole(link)
            return self._done("blackhole", [link.name], f"{link.name} looks healthy and passes nothing, both ways")

    def heal(self, links: Sequence[Link], what: str) -> tuple[str, list[str]]:
        """End all that was done to these links; what of them was not well, by name."""
        with self._lock:
            names = [link.name for link in links if not self._is_well(link)]
            for link in links:
                self._stop_flap(link)
            for link in [None] if len(links) == len(self.wan.links) else links:
                self.bed.heal(link)
            text = f"{', '.join(names)} healed" if names else f"{what}: nothing was to be healed"
            self._done("heal", names, text)
        self._on_heal()
        return text, names

    def isolate(self, dc: str) -> tuple[str, list[str]]:
        """Take down every link of a site."""
        links = [self.wan.link((dc, neighbor)) for neighbor in self.wan.neighbors(dc)]
        names = [link.name for link in links]
        with self._lock:
            for link in links:
                self._stop_flap(link)
                self.bed.fail(link)
            return self._done("isolate", [dc], f"{dc} is cut off: {', '.join(names)} are down"), names

    def check_shape(self, link: Link, direction: Edge | None, changed: Mapping[str, float]) -> None:
        """Whether `shape` could do it. RingroadError for what this kernel cannot emulate."""
        if direction is not None and direction not in link.edges:
            ways = " and ".join(f"{a} → {b}" for a, b in link.edges)
            raise InputError(f"{' → '.join(direction)} is no direction of {link.name}", remedy=f"it has {ways}")
        beyond = {name: changed[name] for name in ("delay_s", "jitter_s", "loss") if changed.get(name)}
        if beyond and not self.bed.capabilities.netem:
            raise RingroadError(
                f"this kernel has no netem: it cannot emulate {describe(beyond)}",
                "set a rate alone, or use a kernel that has netem; see ringroad doctor",
            )
        for edge in link.edges if direction is None else (direction,):
            replace(self._wanted[edge], **changed)

    def shape(self, link: Link, direction: Edge | None, changed: Mapping[str, float]) -> str:
        """Give a link, or one direction of it, other properties, which `check_shape` has found right."""
        edges = link.edges if direction is None else (direction,)
        with self._lock:
            self._set({edge: replace(self._wanted[edge], **changed) for edge in edges})
            self._look("")
        where = link.name if direction is None else " → ".join(direction)
        return self._told("shape", [link.name], f"{where}: {describe(changed)}")

    def set_rates(self, rates_bps: Mapping[Edge, float], cause: str) -> None:
        """What a trace says."""
        with self._lock:
            self._set({edge: replace(self._wanted[edge], rate_bps=rate) for edge, rate in rates_bps.items()})
            self._look(cause)

    def flap(self, link: Link, period_s: float, for_s: float) -> str:
        """Begin to take it down and up."""
        with self._lock:  # Of two at once the second ends the first, however close they come.
            self._stop_flap(link)
            stop = self._flaps[link.name] = threading.Event()
        thread = threading.Thread(target=self._flap, args=(link, period_s, for_s, stop), name="flap", daemon=True)
        thread.start()
        return self._told("flap", [link.name], f"{link.name} flaps: every {period_s:g} s for {for_s:g} s")

    def _flap(self, link: Link, period_s: float, for_s: float, stop: threading.Event) -> None:
        for _ in range(max(1, round(for_s / period_s))):
            if not (
                self._half(link, self.bed.fail, period_s, stop) and self._half(link, self.bed.heal, period_s, stop)
            ):
                return
        with self._lock:
            if self._flaps.get(link.name) is stop:
                del self._flaps[link.name]
        self._told("flap", [link.name], f"{link.name} flaps no more")

    def _half(self, link: Link, act: Callable[[Link], None], period_s: float, stop: threading.Event) -> bool:
        """Half a period; False once somebody has done something else to the link, which is left alone."""
        with self._lock:
            if stop.is_set():
                return False
            act(link)
            self._look("flap")
        return not stop.wait(period_s / 2)

    def _stop_flap(self, link: Link) -> None:
        with self._lock:
            stop = self._flaps.pop(link.name, None)
            if stop is not None:
                stop.set()

    def _is_well(self, link: Link) -> bool:
        states = [self._states[edge] for edge in link.edges]
        return link.name not in self._flaps and all(state.up and not state.blackholed for state in states)

    def _set(self, changes: Mapping[Edge, EdgeProperties]) -> None:
        self.bed.shape_many(changes)
        self._wanted |= changes

    def _done(self, what: str, targets: Sequence[str], text: str) -> str:
        self._look("")
        return self._told(what, targets, text)

    def _told(self, what: str, targets: Sequence[str], text: str) -> str:
        self._hub.publish(FaultEvent, text, what=what, targets=tuple(targets))
        return text

    def _sample(self) -> None:
        try:
            while not self._closed.wait(RATES_EVERY_S):
                rates = self._look("seen", rates=True)
                if self._hub.has_listeners:
                    self._hub.publish(RatesEvent, "", rates=rates)
        except Exception as error:
            self._failed(error)

    def _look(self, cause: str, rates: bool = False) -> tuple[EdgeRate, ...]:
        """Ask the kernel, and tell what is set otherwise than before; `cause` stands in the log unless it is empty."""
        with self._lock:
            now, statuses = time.monotonic(), self.bed.links()
            states = {status.edge: self._state(status, now, rates) for status in statuses}
            if rates:
                self._sampled_at = now
                self._sent = {status.edge: status.sent_bytes for status in statuses}
            changed = [state for edge, state in states.items() if not _same(state, self._states.get(edge))]
            first, self._states = not self._states, states
            if changed:
                self._remember(now)
            if changed and not first:
                text = f"{cause}: {summary(changed)}" if cause else ""
                self._hub.publish(LinkEvent, text, links=tuple(changed))
        return tuple(EdgeRate(s.source, s.target, s.carried_bps, s.backlog_bytes, s.drops) for s in states.values())

    def _state(self, status: LinkStatus, now: float, rates: bool) -> EdgeState:
        edge, held = status.edge, status.properties
        before = self._states.get(edge)
        carried_bps = before.carried_bps if before else 0.0
        if rates and now > self._sampled_at:
            sent = status.sent_bytes - self._sent.get(edge, status.sent_bytes)
            carried_bps = max(0.0, sent * 8 / (now - self._sampled_at))
        return EdgeState(
            link=status.link,
            source=edge[0],
            target=edge[1],
            rate_bps=self._wanted[edge].rate_bps,
            own_rate_bps=self.wan.edges[edge].rate_bps,
            delay_s=held.delay_s,
            jitter_s=held.jitter_s,
            loss=held.loss,
            up=status.up,
            blackholed=status.blackholed,
            carried_bps=round(carried_bps),
            backlog_bytes=status.backlog_bytes,
            drops=status.queue_drops,
        )

    def _remember(self, now: float) -> None:
        rates = {e: s.rate_bps if s.up and not s.blackholed else 0.0 for e, s in self._states.items()}
        self._capacities.append((now, rates))
        while len(self._capacities) > 1 and self._capacities[1][0] < now - REMEMBERED_S:
            self._capacities.popleft()


def _same(one: EdgeState, other: EdgeState | None) -> bool:
    return other is not None and all(getattr(one, name) == getattr(other, name) for name in SETTINGS)


def describe(changed: Mapping[str, float]) -> str:
    """`20 Mbit/s, delay 40 ms`: for people."""
    words = {
        "rate_bps": lambda value: format_rate(value),
        "delay_s": lambda value: f"delay {value * 1e3:g} ms",
        "jitter_s": lambda value: f"jitter {value * 1e3:g} ms",
        "loss": lambda value: f"loss {value * 100:g} %",
    }
    return ", ".join(words[name](value) for name, value in changed.items())


def summary(states: Sequence[EdgeState]) -> str:
    """What some edges are now, in a line; a link whose directions are alike is told once."""
    said: dict[str, list[str]] = {}
    for state in states:
        what = "down" if not state.up else "blackholed" if state.blackholed else format_rate(state.rate_bps)
        said.setdefault(f"{state.link} {what}", []).append(f"{state.source} → {state.target} {what}")
    parts = [both if len(ways) == 2 else ways[0] for both, ways in said.items()]
    more = len(parts) - SHOWN_LINKS
    return ", ".join(parts[:SHOWN_LINKS]) + (f" and {more} more" if more > 0 else "")
