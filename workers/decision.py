"""What all ranks run next, as a value: an order, or the forest of a planned schedule, and whether changing is worth it.

Pure: the agent measures before it and lets all ranks agree after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from workers.network import Network, Order, isolated, ring_bps
from workers.policies.view import RingView, from_first
from workers.schedules import PLANNED
from workers.schedules.choice import planned
from workers.schedules.forest import Forest, along_ring, predicted_s, shard_bps
from workers.schedules.packing import NoSchedule


@dataclass(frozen=True)
class Ring:
    """The order all ranks run, and how often it has changed; `forest` is what a planned schedule runs instead."""

    epoch: int
    order: Order
    forest: Forest | None = None
    schedule: str | None = None


@dataclass(frozen=True)
class Decision:
    """What runs from now on, and how much faster it should be than what ran (0.1 = 10 %; None: it stood still).

    The rates are those at which every rank's shard should reach all others, in bit/s, before the decision and after it.
    """

    ring: Ring
    predicted_gain: float | None = None
    rate_before_bps: float | None = None
    rate_bps: float | None = None


def decide(now: Ring, order: Order, view: RingView, schedule: str, chunk_bytes: int) -> Decision:
    """`order` is the policy's, which has weighed the change of a plain ring; planned schedules are weighed here.

    Where links are not known a planned schedule takes every pair for a link of its own, and promises too much where
    pairs share one.
    """
    network = view.network or isolated(view.bandwidths)
    decision = _decided(now, order, view, network, schedule, chunk_bytes)
    return replace(decision, rate_before_bps=_rate_bps(network, now), rate_bps=_rate_bps(network, decision.ring))


def _decided(now: Ring, order: Order, view: RingView, network: Network, schedule: str, chunk_bytes: int) -> Decision:
    if schedule not in PLANNED:
        changed = order != from_first(now.order)
        ring = Ring(now.epoch + 1, order) if changed else now
        before, after = (ring_bps(network, each.order) for each in (now, ring))
        return Decision(ring, after / before - 1 if before > 0 else None)
    return _planned(now, order, view, network, schedule, chunk_bytes)


def _rate_bps(network: Network, ring: Ring) -> float:
    if ring.forest is not None:
        return shard_bps(network, ring.forest)
    return ring_bps(network, ring.order) / (len(ring.order) - 1)


def _planned(now: Ring, order: Order, view: RingView, network: Network, schedule: str, chunk_bytes: int) -> Decision:
    try:
        best = planned(schedule, network, order, view.size_bytes, chunk_bytes)
    except NoSchedule:
        return Decision(now)
    present = now.forest or along_ring(now.order)
    now_s = predicted_s(network, present, view.size_bytes, chunk_bytes)
    pays = view.change_cost_s / (view.collectives * best.time_s) if best.time_s > 0 else 0.0
    if not now_s > best.time_s * (1 + max(view.margin, pays)):
        return Decision(now, 0.0)
    gain = now_s / best.time_s - 1 if math.isfinite(now_s) else None
    return Decision(Ring(now.epoch + 1, order, best.forest, best.name), gain)
