"""The static arm: pairs start on their shortest path and stay there, whatever happens. Pure."""

from __future__ import annotations

from controller.view import Routing, View


class Shortest:
    """Never moves, also not off a link that is down; the planner starts and resets every pair on its shortest path."""

    def decide(self, view: View, now: float) -> Routing:
        """The routing as it is."""
        return view.routing
