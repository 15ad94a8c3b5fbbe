"""Schedules planned for a network that is known, and the choice among them: the one that should end first. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workers.network import Network, Order
from workers.schedules.forest import Forest, along_ring, predicted_s, shard_bps
from workers.schedules.packing import NoSchedule, in_proportion, rings, trees

Planner = Callable[[Network, Order], Forest]
"""(network, present ring order) → forest. NoSchedule if the network does not join all ranks."""

PLANNERS: dict[str, Planner] = {
    "ring": lambda network, order: along_ring(order),
    "bidirectional": lambda network, order: in_proportion(network, [order, tuple(reversed(order))]),
    "multiring": lambda network, order: rings(network, len(order)).forest,
    "trees": lambda network, order: trees(network, len(order)).forest,
}

AUTO = "auto"
"""Not a schedule: whichever should end first."""

WORTH_IT = 0.05
"""A simpler schedule is taken where it should take at most this much longer: more connections cost processors more."""


@dataclass(frozen=True)
class Planned:
    """A schedule's forest, the rate in bit/s at which it gathers every shard, and how long a collective should take."""

    name: str
    forest: Forest
    shard_bps: float
    time_s: float


def planned(name: str, network: Network, order: Order, size_bytes: int, chunk_bytes: int) -> Planned:
    """The schedule of that name, or with `auto` the simplest of those that should end about first.

    NoSchedule if the network does not join all ranks.
    """
    if name != AUTO:
        return _plan(name, network, order, size_bytes, chunk_bytes)
    plans = [plan for each in PLANNERS if (plan := _tried(each, network, order, size_bytes, chunk_bytes))]
    if not plans:
        raise NoSchedule("no schedule joins all ranks")
    least_s = min(plan.time_s for plan in plans)
    return next(plan for plan in plans if plan.time_s <= least_s * (1 + WORTH_IT))


def compared(
    network: Network, order: Order, size_bytes: int, chunk_bytes: int, names: Sequence[str] = tuple(PLANNERS)
) -> list[Planned]:
    """Every schedule on this network. NoSchedule if it does not join all ranks."""
    return [_plan(name, network, order, size_bytes, chunk_bytes) for name in names]


def _plan(name: str, network: Network, order: Order, size_bytes: int, chunk_bytes: int) -> Planned:
    forest = PLANNERS[name](network, order)
    time_s = predicted_s(network, forest, size_bytes, chunk_bytes)
    return Planned(name, forest, shard_bps(network, forest), time_s)


def _tried(name: str, network: Network, order: Order, size_bytes: int, chunk_bytes: int) -> Planned | None:
    try:
        plan = _plan(name, network, order, size_bytes, chunk_bytes)
    except NoSchedule:
        return None
    return plan if math.isfinite(plan.time_s) else None
