"""The experiment file as a person writes it: its keys, their units, their defaults.

Only the shape of the file is here; whether it makes sense against the WAN is checked in `experiment`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from testbed.dynamics.faults import FaultSpec
from testbed.dynamics.traces import ConstantSpec, TraceSpec
from topologies.fields import Duration, Name, PositiveDuration, Probability, Rate, Size, Strict
from topologies.wanfile import WanSpec

ArmName = Literal["static", "wan", "ccl", "joint"]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
CountOrNone = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]


class Every(Strict):
    """One collective every so often, so that collective i meets the same WAN in every arm."""

    every: PositiveDuration


class FeedSpec(Strict):
    """How late and how well the WAN controller learns of capacities: see `FeedSettings`."""

    delay: Duration = 0.0
    noise: Probability = 0.0
    quantum: Rate | None = None
    loss: Probability = 0.0


class AgentSpec(Strict):
    """Where the ring agent's bandwidths come from, how it chooses order and schedule, from which gain on it moves."""

    source: Literal["probe", "passive", "feed", "oracle"] = "probe"
    policy: Name = "bottleneck"
    schedule: Name = "ring"
    margin: Probability = 0.1


class ControllerSpec(Strict):
    """The WAN controller: its path policy in the arms that have one, who tells it of demands, when it moves a pair."""

    policy: Name = "widest"
    demands: Literal["measured", "announced"] = "measured"
    stack: Literal["ryu", "os_ken"] = "ryu"
    tunnels: Annotated[int, Field(strict=True, ge=1, le=32)] = 4
    margin: Probability = 0.1
    dwell: Duration = 0.5
    moves: Count = 10
    move_every: PositiveDuration = 0.5
    detours: Annotated[bool, Field(strict=True)] | None = None


class ToleranceSpec(Strict):
    """When a run is not to be trusted (see `fidelity`)."""

    goodput_min: Annotated[float, Field(gt=0, le=1)] = 0.95
    goodput_max: Annotated[float, Field(ge=1, le=2)] = 1.02
    rtt_error_max: Annotated[float, Field(gt=0, le=1)] = 0.02
    cpu_idle_min: Annotated[float, Field(ge=0, lt=1)] = 0.03
    starved_seconds_max: Annotated[float, Field(ge=0, le=1)] = 0.2
    stray_drops_max: CountOrNone = 0


class TimeoutsSpec(Strict):
    """After how long something counts as hanging. `arm` is derived from the length expected when it is left out."""

    start: PositiveDuration = 60.0
    collective: PositiveDuration = 60.0
    arm: PositiveDuration | None = None


def _congestion_control(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[a-z0-9_]{1,15}", value):
        raise ValueError("this is no name of a TCP congestion control; write it like cubic")
    return value


CongestionControl = Annotated[str, BeforeValidator(_congestion_control)]


def _as_mapping(value: Any) -> Any:
    """A bare name of a trace kind (`trace: constant`) means the kind without settings."""
    return {"kind": value} if isinstance(value, str) else value


class ExperimentSpec(Strict):
    """The whole file. `wan` is the name of a built-in WAN, a path relative to this file, or a WAN written out here."""

    name: Name
    description: str = ""
    wan: str | WanSpec
    trace: Annotated[TraceSpec, BeforeValidator(_as_mapping)] = ConstantSpec(kind="constant")
    faults: list[FaultSpec] = Field(default_factory=list)
    arms: list[ArmName] = Field(default_factory=lambda: ["static", "wan", "ccl", "joint"])
    blocks: Annotated[int, Field(strict=True, ge=1, le=1000)] = 5
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 1
    payload: Size
    collectives: Count
    warmup: CountOrNone = 1
    pacing: Literal["back_to_back"] | Every = "back_to_back"
    compute: Duration = 0.0
    reorder_every: Count = 5
    t_wan: PositiveDuration = 0.5
    initial_order: Literal["listed", "measured_once"] = "listed"
    elastic: Annotated[bool, Field(strict=True)] = False
    capacity: Literal["feed", "measured"] = "feed"
    feed: FeedSpec = FeedSpec()
    agent: AgentSpec = AgentSpec()
    controller: ControllerSpec = ControllerSpec()
    congestion_control: CongestionControl = "cubic"
    tolerance: ToleranceSpec = ToleranceSpec()
    timeouts: TimeoutsSpec = TimeoutsSpec()
