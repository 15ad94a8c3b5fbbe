"""What a live testbed tells over its control socket: the snapshot and the events, as values and as JSON.

One JSON object a line over a Unix socket (`topologies.wire`). What can be asked is in `requests`; docs/live.md has the
whole. Rates in bit/s, sizes in bytes, times in seconds of CLOCK_MONOTONIC. Imports nothing heavy: clients use it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

PROTOCOL = 1
"""Raised when something is taken away or changes its meaning; what is added leaves it."""

SOCKET = "control.sock"
"""Name of the control socket in the state folder of the run."""

STARTING = "starting"
"""Name of a file in the state folder of a testbed that comes up in another kernel, and then is up."""

KEPT_COLLECTIVES = 240
KEPT_LOG = 200
"""How much of the past a snapshot tells."""

RATES_EVERY_S = 0.25
"""How often `rates` are told."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class SiteInfo:
    """A site: `kind` is `dc` or `transit`; degrees north and east, or None where it has no place on a map.

    `ip` is the address of its host inside the emulated network.
    """

    name: str
    kind: str
    latitude: float | None = None
    longitude: float | None = None
    ip: str = ""


@dataclass(frozen=True)
class LinkInfo:
    """A link and its two ends."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class EdgeState:
    """One direction of a link now: what it is set to, and what it does.

    `own_rate_bps` is the WAN's own rate. `up`: the switches see a carrier; `blackholed`: they do, and nothing passes.
    `carried_bps` is the mean over the last quarter of a second; `drops` counts since the testbed came up.
    """

    link: str
    source: str
    target: str
    rate_bps: float
    own_rate_bps: float
    delay_s: float
    jitter_s: float
    loss: float
    up: bool
    blackholed: bool
    carried_bps: float
    backlog_bytes: int
    drops: int


@dataclass(frozen=True)
class EdgeRate:
    """What one direction of a link carries: the part of `EdgeState` that always moves."""

    source: str
    target: str
    carried_bps: float
    backlog_bytes: int
    drops: int


@dataclass(frozen=True)
class Route:
    """The path of an ordered pair of DCs, ends included. `active`: the controller sees that it sends."""

    source: str
    target: str
    path: tuple[str, ...]
    active: bool


@dataclass(frozen=True)
class Ring:
    """The DCs in the order of the ring; `epoch` counts changes, `pinned`: by hand, the agent leaves it alone."""

    order: tuple[str, ...]
    epoch: int
    pinned: bool


@dataclass(frozen=True)
class Control:
    """Which loops act. `reorder_every`: collectives between two decisions of the ring agent, N; it acts in ccl, joint.

    `policy` and `period_s` (T_wan) are the WAN controller's.
    """

    arm: str
    policy: str
    period_s: float
    reorder_every: int


@dataclass(frozen=True)
class Workers:
    """The workers. `state`: `off`, `starting`, `running`, `waiting` (see `reason`).

    `size_bytes` is what each DC contributes, `every_s` the pace (None: back to back).
    """

    state: str
    alive: tuple[str, ...] = ()
    crashed: tuple[str, ...] = ()
    size_bytes: int = 0
    every_s: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Collective:
    """One finished AllGather. `number` counts from 1 over the life of the testbed.

    `limit_s` is the physical lower bound on the WAN as it was while it ran; None where DCs were cut off. `agent_s` is
    what the ring agent took before it. `arm` was in force when it ended.
    """

    number: int
    arm: str
    start: float
    end: float
    time_s: float
    limit_s: float | None
    agent_s: float
    order: tuple[str, ...]
    size_bytes: int
    verified: bool


@dataclass(frozen=True)
class TraceState:
    """Whether a trace changes capacities now, and which one (also when it stands still and could be started)."""

    playing: bool
    name: str | None = None


@dataclass(frozen=True)
class Move:
    """One pair leaves one path for another."""

    source: str
    target: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class KernelInfo:
    """The kernel that the WAN is emulated on: `native` or `uml`, its version, what that means for time, and why it."""

    kernel: str
    version: str
    mode: str = ""
    why: str = ""


@dataclass(frozen=True)
class Event:
    """Something that happened at `at`. `seq` counts all events of a testbed from 1; `text` is for people.

    Its JSON has `event`, the name of its kind, beside the fields.
    """

    event: ClassVar[str] = ""
    seq: int
    at: float
    text: str


@dataclass(frozen=True)
class CollectiveEvent(Event):
    """A collective is done and every element of it is right."""

    event: ClassVar[str] = "collective"
    collective: Collective


@dataclass(frozen=True)
class ReconfigurationEvent(Event):
    """The WAN controller moved pairs. `happened_at`: the cause; `installed_at`: the last switch confirmed, or None.

    `latency_s` is the time between these two.
    """

    event: ClassVar[str] = "reconfiguration"
    number: int
    cause: str
    happened_at: float
    seen_at: float
    decided_at: float
    installed_at: float | None
    latency_s: float | None
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class RoutesEvent(Event):
    """The routes of all pairs from now on; follows a reconfiguration."""

    event: ClassVar[str] = "routes"
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class RingChangeEvent(Event):
    """The ring agent (or a person: `by_hand`) decided; `changed` says whether the order did.

    `measure_s`, `decide_s` and `agree_s` are what it took.
    """

    event: ClassVar[str] = "ring_change"
    before: tuple[str, ...]
    ring: Ring
    changed: bool
    by_hand: bool
    predicted_gain: float | None
    measure_s: float
    decide_s: float
    agree_s: float


@dataclass(frozen=True)
class LinkEvent(Event):
    """These directed edges are set to something else now, as the kernel tells."""

    event: ClassVar[str] = "link"
    links: tuple[EdgeState, ...]


@dataclass(frozen=True)
class FaultEvent(Event):
    """Somebody did this on purpose: `what` is the verb (fail, heal, blackhole, …), `targets` its objects."""

    event: ClassVar[str] = "fault"
    what: str
    targets: tuple[str, ...]


@dataclass(frozen=True)
class ArmEvent(Event):
    """Arm, N or T_wan are different now."""

    event: ClassVar[str] = "arm"
    control: Control


@dataclass(frozen=True)
class WorkersEvent(Event):
    """The workers are in another state."""

    event: ClassVar[str] = "workers"
    workers: Workers


@dataclass(frozen=True)
class TraceEvent(Event):
    """A trace began or ended."""

    event: ClassVar[str] = "trace"
    trace: TraceState


@dataclass(frozen=True)
class RatesEvent(Event):
    """What every directed edge carries, four times a second; `text` is empty."""

    event: ClassVar[str] = "rates"
    rates: tuple[EdgeRate, ...]


@dataclass(frozen=True)
class DownEvent(Event):
    """The testbed is being taken down; the last event."""

    event: ClassVar[str] = "down"


EVENTS: dict[str, type[Event]] = {
    kind.event: kind
    for kind in (
        CollectiveEvent,
        ReconfigurationEvent,
        RoutesEvent,
        RingChangeEvent,
        LinkEvent,
        FaultEvent,
        ArmEvent,
        WorkersEvent,
        TraceEvent,
        RatesEvent,
        DownEvent,
    )
}
"""Every kind of event, by its name."""


@dataclass(frozen=True)
class LogEntry:
    """A line of the log: the `text` of any event but `collective`, `routes` and `rates`. `kind`: the event's name."""

    seq: int
    at: float
    kind: str
    text: str


@dataclass(frozen=True)
class Snapshot:
    """All that is known at `now`. `seq` is the last event's that it takes into account; events go on from there.

    `links` has every directed edge, `routes` every ordered pair of DCs; `collectives` and `log` end with the newest.
    `started` is a label for people, `notes` what this machine cannot emulate.
    """

    protocol: int
    seq: int
    now: float
    run_id: str
    pid: int
    started: str
    wan: str
    sites: tuple[SiteInfo, ...]
    wan_links: tuple[LinkInfo, ...]
    links: tuple[EdgeState, ...]
    routes: tuple[Route, ...]
    ring: Ring
    control: Control
    workers: Workers
    trace: TraceState
    collectives: tuple[Collective, ...]
    log: tuple[LogEntry, ...]
    notes: tuple[str, ...] = ()
    dashboard: str | None = None
    """The address of the dashboard, if there is one."""
    kernel: KernelInfo | None = None


@dataclass(frozen=True)
class Done:
    """The reply to a request that changed something: what it did, in words, when it was done, what it touched."""

    did: str
    at: float
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where something of the testbed is on this machine: for `capture` and `sh`.

    `interface` is the end of a link on the side of `source`, on the host; `netns_pid` a process in a site's namespace.
    """

    run_id: str
    interface: str | None = None
    netns_pid: int | None = None
    ip: str | None = None


def to_json(value: Any) -> dict[str, Any]:
    """A value of this module as plain JSON; an event with the name of its kind."""
    plain = asdict(value)
    return {"event": value.event, **plain} if isinstance(value, Event) else plain


def event_from_json(plain: Mapping[str, Any]) -> Event | None:
    """The event that `to_json` wrote; None for a kind that is not known here."""
    kind = EVENTS.get(plain.get("event", ""))
    return None if kind is None else from_json(kind, plain)


def from_json(kind: type[Value], plain: Mapping[str, Any]) -> Value:
    """The value of that class that `to_json` wrote. Fields that are not known here are left out."""
    hints = _hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: _decoded(hints[name], plain[name]) for name in names if name in plain})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decoded(hint: Any, plain: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = next(part for part in get_args(hint) if part is not type(None))
        return None if plain is None else _decoded(inner, plain)
    if origin is tuple:
        return tuple(_decoded(get_args(hint)[0], each) for each in plain)
    return from_json(hint, plain) if is_dataclass(hint) else plain


def is_written_out(trace: str) -> bool:
    """Whether it is a trace itself, as `{kind: …}` or `constant`, and not the path of a file."""
    return trace.lstrip().startswith("{") or trace.strip() == "constant"
