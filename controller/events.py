"""What can happen to the controller, as values: the planner's input. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.rules import EMPTY, Batch, Held
from controller.view import Pair, Policy, Route
from topologies.model import Edge


@dataclass(frozen=True)
class SwitchConnected:
    """A switch is there (again), and this is what was read from it. `ports_down` are (site, neighbor)."""

    site: str
    ports_down: frozenset[Edge] = frozenset()
    held: Held = EMPTY


@dataclass(frozen=True)
class SwitchLost:
    """The connection to a switch is gone."""

    site: str


@dataclass(frozen=True)
class BatchConfirmed:
    """The barrier after a batch was answered."""

    batch: Batch


@dataclass(frozen=True)
class PortChanged:
    """The port at edge[0] towards edge[1] went up or down."""

    edge: Edge
    up: bool


@dataclass(frozen=True)
class CapacityChanged:
    """What some directed edges can carry from now on."""

    rates_bps: Mapping[Edge, float]


@dataclass(frozen=True)
class DemandsAnnounced:
    """From now on these pairs send, and no others: bytes for each, in one collective."""

    size_bytes: Mapping[Pair, float]


@dataclass(frozen=True)
class PeriodElapsed:
    """A period is over; `counters` holds the bytes that each pair's ingress rule has counted so far."""

    counters: Mapping[Pair, int]


@dataclass(frozen=True)
class Pin:
    """Keep a pair on a route."""

    pair: Pair
    route: Route


@dataclass(frozen=True)
class Unpin:
    """Give a pair back to the policy."""

    pair: Pair


@dataclass(frozen=True)
class Reset:
    """Every pair to its shortest path, with this policy and these capacities; `detours` None: as it is."""

    policy: Policy
    rates_bps: Mapping[Edge, float]
    detours: bool | None = None


@dataclass(frozen=True)
class WishDue:
    """Good news may have lasted long enough by now, or a pair may move again."""


@dataclass(frozen=True)
class DetoursDue:
    """Links went down or up, and what follows for pairs is sent: now bring the detours up to date."""


Event = (
    SwitchConnected
    | SwitchLost
    | BatchConfirmed
    | PortChanged
    | CapacityChanged
    | DemandsAnnounced
    | PeriodElapsed
    | Pin
    | Unpin
    | Reset
    | DetoursDue
    | WishDue
)
