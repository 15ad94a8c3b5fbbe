"""A WAN as plain JSON values and back: what one process of ours hands to another. Files of people are in `wanfile`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from topologies.model import EdgeProperties, Link, Site, Wan


def wan_to_json(wan: Wan) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers; `wan_from_json` gives an equal WAN."""
    return asdict(wan)


def wan_from_json(plain: dict[str, Any]) -> Wan:
    """The WAN that `wan_to_json` wrote. InputError if it is not a valid WAN."""
    links = (
        Link(
            **{
                **link,
                "forward": EdgeProperties(**link["forward"]),
                "backward": EdgeProperties(**link["backward"]),
            }
        )
        for link in plain["links"]
    )
    sites = tuple(Site(**site) for site in plain["sites"])
    return Wan(plain["name"], sites, tuple(links), plain.get("description", ""))
