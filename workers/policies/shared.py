"""The best ring on the links that there are: ring edges that cross one link share it. Pure; needs links and routes.

It takes the routes as they are. A WAN controller that moves them meanwhile makes its prediction old, not wrong.
"""

from __future__ import annotations

from workers.network import Order, ring_bps
from workers.policies.linkrings import best_ring
from workers.policies.view import RingView, chosen, links_of


def shared(view: RingView) -> Order:
    """The order of the fastest slowest link, ties by delay; the current one unless the gain exceeds the margin.

    LinksUnknown if the view has no network.
    """
    network = links_of(view, "shared")
    best = best_ring(network, len(view.current), view.current)
    return chosen(view, best.order, ring_bps(network, view.current), best.rate_bps)
