"""Is this run to be trusted? Judges what was measured; measures nothing itself. Pure.

Before the arms: does every link carry what it is set to, all at once? What single packets meet is for `edgefidelity`.
During each arm: did the machine have time left, and did packets get lost anywhere but in the emulated links' queues?
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topologies.model import Edge
from topologies.units import format_rate

BEFORE = "before the arms"
MAX_REASONS = 5
"""More of the same kind are counted, not listed."""


@dataclass(frozen=True)
class Tolerance:
    """From where on a run is not to be trusted.

    Goodput ÷ set rate lies between `goodput_min` and `goodput_max`. A link's round trip differs from what it is set to
    by at most `rtt_error_max` (a share of it; a millisecond is always granted). A second in which less than
    `cpu_idle_min` of all CPUs was idle is a starved one, and at most `starved_seconds_max` of all seconds may be (both
    shares, 0 to 1).
    `stray_drops_max` packets may be lost outside the emulated links' queues.
    """

    goodput_min: float = 0.95
    goodput_max: float = 1.02
    rtt_error_max: float = 0.02
    cpu_idle_min: float = 0.03
    starved_seconds_max: float = 0.2
    stray_drops_max: int = 0


@dataclass(frozen=True)
class Goodput:
    """What one directed edge carried of TCP payload while all edges were loaded, against the rate it is set to."""

    edge: Edge
    set_bps: float
    goodput_bps: float


@dataclass(frozen=True)
class CpuSample:
    """The share of all CPUs that was idle between `since` and `until` (s, CLOCK_MONOTONIC)."""

    since: float
    until: float
    idle: float


@dataclass(frozen=True)
class Verdict:
    """Trustworthy, or why not; `figures` are what it follows from."""

    trustworthy: bool
    reasons: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)


def judge_links(goodputs: Sequence[Goodput], tolerance: Tolerance) -> Verdict:
    """Of the gate before the arms. A gate that measured nothing is not passed."""
    if not goodputs:
        return verdict_of(["no link was measured"], {"links": 0})
    ratios = {g.edge: g.goodput_bps / g.set_bps for g in goodputs}
    reasons = [
        f"{_arrow(g.edge)} carries {format_rate(g.goodput_bps)} of {format_rate(g.set_bps)}: "
        f"{ratios[g.edge]:.3f}, outside {tolerance.goodput_min:g} to {tolerance.goodput_max:g}"
        for g in sorted(goodputs, key=lambda g: ratios[g.edge])
        if not tolerance.goodput_min <= ratios[g.edge] <= tolerance.goodput_max
    ]
    figures = {
        "links": len(goodputs),
        "goodput_ratio_min": min(ratios.values()),
        "goodput_ratio_max": max(ratios.values()),
        "goodputs": [
            {"edge": list(g.edge), "set_bps": g.set_bps, "goodput_bps": g.goodput_bps, "ratio": ratios[g.edge]}
            for g in goodputs
        ],
    }
    return verdict_of(reasons, figures)


def judge_arm(cpu: Sequence[CpuSample], stray_drops: Mapping[str, int], tolerance: Tolerance) -> Verdict:
    """Of one arm. `stray_drops`: packets lost by place, for places that are not queues of emulated links.

    Each reason says first what is wrong in words that every arm shares, then after a colon this arm's figures.
    """
    reasons = []
    seconds = math.fsum(sample.until - sample.since for sample in cpu)
    figures: dict[str, Any] = {"cpu_seconds": seconds, "stray_drops": dict(stray_drops)}
    if seconds > 0:
        starved = [sample for sample in cpu if sample.idle < tolerance.cpu_idle_min]
        share = math.fsum(sample.until - sample.since for sample in starved) / seconds
        figures["cpu_idle_mean"] = math.fsum(s.idle * (s.until - s.since) for s in cpu) / seconds
        figures["cpu_idle_min"] = min(sample.idle for sample in cpu)
        figures["starved_share"] = share
        if share > tolerance.starved_seconds_max:
            reasons.append(
                f"less than {tolerance.cpu_idle_min:.0%} of the CPUs was idle in more than "
                f"{tolerance.starved_seconds_max:.0%} of the time: in {share:.0%}; the machine, not the WAN, may have "
                "set the pace"
            )
    else:
        reasons.append("the CPUs were not sampled")
    lost = {place: count for place, count in stray_drops.items() if count > 0}
    if sum(lost.values()) > tolerance.stray_drops_max:
        places = ", ".join(
            f"{count} at {place}" for place, count in sorted(lost.items(), key=lambda item: -item[1])[:3]
        )
        reasons.append(
            f"packets were dropped outside the emulated links' queues: {sum(lost.values())} in all, {places}"
        )
    return verdict_of(reasons, figures)


def combine(gate: Verdict, arms: Mapping[str, Verdict]) -> Verdict:
    """One verdict on the gate and all arms by name: what is wrong in several arms is said once, with their count."""
    reasons = [f"{BEFORE}: {reason}" for reason in gate.reasons]
    figures = {BEFORE: gate.figures} | {name: verdict.figures for name, verdict in arms.items()}
    trustworthy = gate.trustworthy and all(verdict.trustworthy for verdict in arms.values())
    return Verdict(trustworthy, (*reasons, *_shortened(_over_arms(arms))), figures)


def _over_arms(arms: Mapping[str, Verdict]) -> list[str]:
    """`in 17 of 20 arms …; first in block 1, joint: …`, by how many arms; what one arm has alone stands under it."""
    by_kind: dict[str, dict[str, str]] = {}
    for name, verdict in arms.items():
        for reason in verdict.reasons:
            kind, _, particulars = reason.partition(": ")
            by_kind.setdefault(kind, {}).setdefault(name, particulars)
    reasons = []
    for kind, found in sorted(by_kind.items(), key=lambda item: -len(item[1])):
        name, particulars = next(iter(found.items()))
        details = f": {particulars}" if particulars else ""
        if len(found) == 1:
            reasons.append(f"{name}: {kind}{details}")
        else:
            reasons.append(f"in {len(found)} of {len(arms)} arms {kind}; first in {name}{details}")
    return reasons


def verdict_from_json(plain: Mapping[str, Any]) -> Verdict:
    """A verdict as `runfolder` wrote it (its fields by name)."""
    return Verdict(bool(plain["trustworthy"]), tuple(plain["reasons"]), dict(plain["figures"]))


def verdict_of(reasons: Iterable[str], figures: dict[str, Any]) -> Verdict:
    """Trustworthy if there is no reason against it."""
    reasons = list(reasons)
    return Verdict(not reasons, _shortened(reasons), figures)


def _shortened(reasons: list[str]) -> tuple[str, ...]:
    if len(reasons) <= MAX_REASONS:
        return tuple(reasons)
    return (*reasons[: MAX_REASONS - 1], f"and {len(reasons) - MAX_REASONS + 1} more")


def _arrow(edge: Edge) -> str:
    return f"{edge[0]} → {edge[1]}"
