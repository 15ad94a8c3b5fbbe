"""What a ring policy sees and what it returns, and when a change is worth its cost. Pure values.

Bandwidths are a matrix by rank: row = from, column = to, bit/s; the diagonal means nothing. Direction matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from topologies.errors import RingroadError
from workers.network import Matrix, Network, Order, edges_of, ring_latency_s, time_s

__all__ = ["Matrix", "Network", "Order", "Policy", "RingView", "bottleneck_bps", "chosen", "from_first", "links_of"]


@dataclass(frozen=True)
class RingView:
    """The collective as a policy sees it.

    `listed` is the order of the ranks as the job lists them, `margin` the gain in speed (0.1 = 10 %) that a change
    must exceed, `seed` and `turn` (count of decisions so far) are for policies that draw. `network` has links, routes,
    delays and what will be, as far as the source knows them (None: a source that only sees pairs). `ages_s` says how
    old each bandwidth is. One order serves `collectives` AllGathers of `size_bytes` per rank (0: not known), and a
    change costs `change_cost_s` once.
    """

    bandwidths: Matrix
    current: Order
    listed: Order
    margin: float = 0.0
    seed: int = 0
    turn: int = 0
    network: Network | None = None
    ages_s: Matrix | None = None
    size_bytes: int = 0
    collectives: int = 1
    change_cost_s: float = 0.0


Policy = Callable[[RingView], Order]
"""A ring policy: same view, same order, always."""


class LinksUnknown(RingroadError):
    """A policy needs links and routes, and its source of bandwidths only sees pairs."""


def links_of(view: RingView, policy: str) -> Network:
    """The view's network. LinksUnknown, naming the policy, if there is none."""
    if view.network is None:
        raise needs_links(policy)
    return view.network


def needs_links(policy: str) -> LinksUnknown:
    """The error of a policy that cannot work on what its source sees."""
    return LinksUnknown(
        f"ring policy {policy!r} needs links and routes, and measurements between pairs show neither",
        "take the bandwidths from feed or oracle, or use the policy bottleneck",
    )


def chosen(view: RingView, best: Order, now_bps: float, best_bps: float) -> Order:
    """`best`, or the current order unless the gain exceeds the margin and pays for the change.

    Rates are those of the slowest link; where delays and size are known they slow both rings down.
    """
    now_bps, best_bps = (_with_delays(view, o, r) for o, r in ((view.current, now_bps), (best, best_bps)))
    saved_for = view.collectives * time_s(_ring_bits(view), best_bps)
    pays = view.change_cost_s / saved_for if saved_for > 0 else 0.0
    return best if best_bps > now_bps * (1 + max(view.margin, pays)) else view.current


def _ring_bits(view: RingView) -> float:
    return 8.0 * view.size_bytes * (len(view.current) - 1)


def _with_delays(view: RingView, order: Order, rate_bps: float) -> float:
    """The rate that the ring seems to have once the delay of the first bytes on their way around counts too."""
    bits = _ring_bits(view)
    delay_s = ring_latency_s(view.network, order) if view.network else 0.0
    return bits / (bits / rate_bps + delay_s) if bits and delay_s and rate_bps > 0 else rate_bps


def bottleneck_bps(bandwidths: Matrix, order: Order) -> float:
    """Bit/s of the slowest edge of the ring, each alone."""
    return min(bandwidths[a][b] for a, b in edges_of(order))


def from_first(order: Order, first: int = 0) -> Order:
    """The same ring, turned so that it begins with rank `first`: two rings are equal exactly if these are."""
    place = order.index(first)
    return (*order[place:], *order[:place])
