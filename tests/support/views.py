"""Views of a network for tests of path policies: every pair on its shortest path, everything up, nobody sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.tunnels import plan_tunnels
from controller.view import View
from topologies import Wan

DIAMOND = {"ab": 100e6, "ac": 100e6, "bc": 100e6, "ad": 100e6, "bd": 100e6}
"""Between a and b: directly, or by c, or by d."""


def view_of(wan: Wan, k: int = 4, **changes: Any) -> View:
    """What a controller with k tunnels a pair knows at its start, and then these changes."""
    plan = plan_tunnels(wan, k)
    candidates = {pair: tuple(t.route for t in tunnels) for pair, tunnels in plan.tunnels.items()}
    routing = {pair: routes[0] for pair, routes in candidates.items()}
    rates = {edge: properties.rate_bps for edge, properties in wan.edges.items()}
    view = View(rates, frozenset(), candidates, plan.lengths, routing, frozenset())
    return replace(view, **changes)


def with_rates(view: View, rates_bps: dict[str, float]) -> View:
    """Other capacities for edges such as `{"ab": 1e6}`, each one direction."""
    changed = {(edge[0], edge[1]): rate for edge, rate in rates_bps.items()}
    return replace(view, capacities_bps={**view.capacities_bps, **changed})
