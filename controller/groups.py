"""Where packets leave a switch: a fast-failover group for each next link, destination and site they came from. Pure.

Tunnels hand over to groups instead of to ports, so that a switch turns to a detour by itself the moment its port dies.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.rules import MAX_GROUPS_PER_SITE, group_number
from controller.settings import Wiring
from controller.view import Route
from topologies.errors import InputError
from topologies.model import Edge


@dataclass(frozen=True)
class GroupKey:
    """The group at `edge[0]` for packets that take `edge` on their way to `target`.

    Which site they come from (None: from the host of this one) counts because a switch sends nothing back by the port
    it came in by unless told so in particular, and a detour may well lead back.
    """

    edge: Edge
    target: str
    previous: str | None

    @property
    def site(self) -> str:
        """Where the group is."""
        return self.edge[0]


def keys_of(route: Route) -> tuple[GroupKey, ...]:
    """The group that packets on a route are handed over to at each of its sites but the last."""
    before = (None, *route)
    return tuple(
        GroupKey((here, after), route[-1], previous)
        for previous, here, after in zip(before, route, route[1:], strict=False)
    )


def first_key(route: Route) -> GroupKey:
    """The group at a route's first site."""
    return GroupKey((route[0], route[1]), route[-1], None)


def number_of(key: GroupKey, wiring: Wiring, version: int) -> int:
    """The group's number on its switch; the same whenever the WAN is."""
    numbers = wiring.neighbor_numbers
    came_from = 0 if key.previous is None else 1 + numbers[key.site, key.previous]
    per_link = 1 + wiring.degrees[key.site]
    index = (numbers[key.edge] * per_link + came_from) * len(wiring.dpids) + wiring.site_numbers[key.target]
    if index >= MAX_GROUPS_PER_SITE:
        remedy = "give the site fewer links, or the WAN fewer sites"
        raise InputError("a site needs too many groups", place=f"site {key.site}", value=index, remedy=remedy)
    return group_number(version, index)
