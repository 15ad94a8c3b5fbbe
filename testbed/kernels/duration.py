"""How long a run will take on the clock of the wall, on each kind of kernel: an estimate, for people. Pure.

Rounded from runs on a two-core machine that did nothing else: one that is twice as fast takes half of it, a busy one
several times as long, but for what `pace_s` says of real time.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.kernels.choosing import Kernel


@dataclass(frozen=True)
class Cost:
    """Seconds of wall time: to come up and pass the gate, per arm besides its collectives, for the report.

    A second of the run's own clock takes `pace_s`, and each byte that a rank sends `byte_s` on top of it.
    """

    start_s: float
    arm_s: float
    report_s: float
    pace_s: float
    byte_s: float


COSTS = {
    Kernel.NATIVE: Cost(start_s=15.0, arm_s=3.0, report_s=3.0, pace_s=1.0, byte_s=0.0),
    Kernel.UML: Cost(start_s=40.0, arm_s=10.0, report_s=3.0, pace_s=1.0, byte_s=0.0),
    Kernel.EXACT: Cost(start_s=25.0, arm_s=2.5, report_s=3.0, pace_s=0.15, byte_s=1e-8),
}


def expected_wall_s(kernel: Kernel, arms: int, arm_s: float, sent_bytes: float) -> float:
    """Of a run of so many arms, each `arm_s` long by its own clock, in which all ranks together send so many bytes."""
    cost = COSTS[kernel]
    return cost.start_s + arms * (cost.arm_s + cost.pace_s * arm_s + cost.byte_s * sent_bytes) + cost.report_s


def allgather_bytes(ranks: int, size_bytes: int, collectives: int) -> int:
    """What all ranks together send in AllGathers of shards of this size: every shard to every other rank."""
    return ranks * (ranks - 1) * size_bytes * collectives
