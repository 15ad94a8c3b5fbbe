"""One timeline out of a trace and faults: at each instant, what has to be set in the network.

Pure. Faults that overlap each other or the trace are settled here, so that whoever plays the timeline only sets what it
says: a link is up again when the last of its faults is over, and gets the rate that the trace has reached by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from testbed.dynamics.faults import BlackholeSpec, DegradeSpec, DownSpec, FaultSpec, absent, fault_faults
from testbed.dynamics.traces import Change, edges_matching
from topologies import Edge, Wan

Key = TypeVar("Key")
Value = TypeVar("Value")

LinkState = Literal["up", "down", "blackhole"]


@dataclass(frozen=True)
class Instant:
    """What is set `at_s` seconds after the start; whatever is not named stays as it is."""

    at_s: float
    rates_bps: Mapping[Edge, float]
    links: Mapping[str, LinkState]
    crashes: tuple[str, ...] = ()
    """DCs whose worker is killed."""
    restarts: tuple[str, ...] = ()
    """DCs that get a worker again."""


def timeline(wan: Wan, changes: Sequence[Change], faults: Sequence[FaultSpec] = ()) -> tuple[Instant, ...]:
    """Instants by time, each with only what differs from before; the WAN starts healthy with its own rates.

    InputError for a fault on a link or DC that the WAN does not have.
    """
    for fault in fault_faults(faults, wan):
        raise fault.error()
    return tuple(_instants(wan, changes, faults))


def capacities(wan: Wan, instants: Sequence[Instant]) -> tuple[tuple[float, dict[Edge, float]], ...]:
    """What the WAN can carry over time: (start in s, bit/s of every edge), from time 0; 0 bit/s on a link not up."""
    rates = {edge: properties.rate_bps for edge, properties in wan.edges.items()}
    states: dict[str, LinkState] = {link.name: "up" for link in wan.links}
    segments: dict[float, dict[Edge, float]] = {0.0: dict(rates)}
    for instant in instants:
        rates |= instant.rates_bps
        states |= instant.links
        segments[instant.at_s] = {
            edge: rate_bps if states[wan.link(edge).name] == "up" else 0.0 for edge, rate_bps in rates.items()
        }
    return tuple(segments.items())


def _instants(wan: Wan, changes: Sequence[Change], faults: Sequence[FaultSpec]) -> Iterator[Instant]:
    traced = {edge: properties.rate_bps for edge, properties in wan.edges.items()}
    rates, states = dict(traced), {link.name: _state(link.name, [], wan) for link in wan.links}
    gone: set[str] = set()
    by_time: dict[float, list[Change]] = {}
    for change in changes:
        by_time.setdefault(change.at_s, []).append(change)
    for at_s in sorted({*by_time, *_fault_times(faults)}):
        traced |= {change.edge: change.rate_bps for change in by_time.get(at_s, ())}
        active = [fault for fault in faults if fault.is_active(at_s)]
        new_rates = _rates(traced, active, wan)
        new_states = {name: _state(name, active, wan) for name in states}
        now_gone = absent(faults, at_s)
        changed = (_differing(new_rates, rates), _differing(new_states, states))
        instant = Instant(at_s, *changed, _sorted(now_gone - gone), _sorted(gone - now_gone))
        if instant.rates_bps or instant.links or instant.crashes or instant.restarts:
            yield instant
        rates, states, gone = new_rates, new_states, now_gone


def _fault_times(faults: Sequence[FaultSpec]) -> Iterator[float]:
    for fault in faults:
        yield fault.at
        if fault.end_s is not None:
            yield fault.end_s


def _sorted(dcs: set[str]) -> tuple[str, ...]:
    return tuple(sorted(dcs))


def _rates(traced: Mapping[Edge, float], active: Sequence[FaultSpec], wan: Wan) -> dict[Edge, float]:
    """A degraded edge carries the smaller of what its trace and its faults leave."""
    rates = dict(traced)
    for fault in active:
        if isinstance(fault, DegradeSpec):
            rates |= {edge: min(rates[edge], fault.rate) for edge in edges_matching(fault.link, wan)}
    return rates


def _state(name: str, active: Sequence[FaultSpec], wan: Wan) -> LinkState:
    def _hit_by(kind: type[DownSpec] | type[BlackholeSpec]) -> bool:
        return any(isinstance(fault, kind) and wan.link(fault.link).name == name for fault in active)

    if _hit_by(DownSpec):
        return "down"
    return "blackhole" if _hit_by(BlackholeSpec) else "up"


def _differing(new: Mapping[Key, Value], old: Mapping[Key, Value]) -> dict[Key, Value]:
    return {key: value for key, value in new.items() if old[key] != value}
