"""What the page is told, as JSON values: a scene that stays, and events that change what is drawn on it. Pure.

A running testbed and a finished run speak these same words, so one page shows both. `at` is in seconds, on the clock of
whoever tells. Sites are numbered as in the WAN; directed edges too: edge 2·i is link i forward, 2·i + 1 backward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from testbed.live.web.geography import lay_out
from topologies.model import Edge, Wan

Event = dict[str, Any]
SHOWN_MOVES = 2
UP, DOWN, BLACKHOLE = "up", "down", "blackhole"


class Numbers:
    """The numbers by which sites and edges of one WAN are spoken of."""

    def __init__(self, wan: Wan) -> None:
        self.wan = wan
        self.sites = {site.name: number for number, site in enumerate(wan.sites)}
        self.edges: dict[Edge, int] = {edge: number for number, edge in enumerate(wan.edges)}

    def route(self, names: Iterable[str]) -> list[int]:
        """A path as numbers."""
        return [self.sites[name] for name in names]


def scene(wan: Wan, **more: Any) -> dict[str, Any]:
    """What does not change: sites with their places, links, coastlines; `more` is added as it is."""
    numbers, layout = Numbers(wan), lay_out(wan)
    return {
        "wan": wan.name,
        "description": wan.description,
        "height": layout.height,
        "land": layout.land,
        "sites": [
            {
                "name": site.name,
                "kind": site.kind,
                "x": layout.positions[site.name][0],
                "y": layout.positions[site.name][1],
            }
            for site in wan.sites
        ],
        "links": [
            {
                "name": link.name,
                "a": numbers.sites[link.a],
                "b": numbers.sites[link.b],
                "rates_bps": [link.forward.rate_bps, link.backward.rate_bps],
            }
            for link in wan.links
        ],
        "dcs": numbers.route(wan.dcs),
        **more,
    }


def edges(at: float, changed: Mapping[int, tuple[float, str]]) -> Event:
    """Edges that have another rate (bit/s) or state (`UP`, `DOWN`, `BLACKHOLE`) from now on."""
    return {"kind": "edges", "at": at, "set": [[edge, rate_bps, state] for edge, (rate_bps, state) in changed.items()]}


def carried(at: float, load_bps: Sequence[float], queue_bytes: Sequence[int], drops: Sequence[int]) -> Event:
    """What every edge carries now (bit/s), holds back (bytes) and has dropped so far (packets), in order."""
    return {
        "kind": "carried",
        "at": at,
        "load_bps": [round(value) for value in load_bps],
        "queue_bytes": list(queue_bytes),
        "drops": list(drops),
    }


def routes(
    at: float, moves: Iterable[tuple[int, int, list[int]]], cause: str | None = None, took_s: float | None = None
) -> Event:
    """Pairs that take another path from now on; `took_s` is from the cause until the last switch had confirmed."""
    return {
        "kind": "routes",
        "at": at,
        "moves": [list(move) for move in moves],
        "cause": cause,
        "took_s": took_s,
    }


def ring(at: float, order: Sequence[int], *, changed: bool = True, took_s: float | None = None) -> Event:
    """The order of the ring as site numbers; `took_s` is the ring agent's time, also where it kept the order."""
    return {"kind": "ring", "at": at, "order": list(order), "changed": changed, "took_s": took_s}


def collective(at: float, took_s: float, limit_s: float | None, arm: str) -> Event:
    """A collective that has ended; `limit_s` is the least that the links allowed."""
    return {"kind": "collective", "at": at, "took_s": took_s, "limit_s": limit_s, "arm": arm}


def settings(at: float, **named: Any) -> Event:
    """`arm`, `reorder_every` and `t_wan_s`, as far as they are named."""
    return {"kind": "settings", "at": at, **named}


def note(at: float, text: str, tone: str = "info") -> Event:
    """A line for the log; `tone` is `info`, `fault` or `heal`."""
    return {"kind": "note", "at": at, "text": text, "tone": tone}


def said(event: Event, text: str, tone: str | None = None) -> Event:
    """The same event with a line for the log, if there is one to write."""
    return {**event, **({"text": text} if text else {}), **({"tone": tone} if tone else {})}


def moved_text(paths: Sequence[tuple[Sequence[str], Sequence[str]]], cause: str) -> str:
    """What moved, as (before, after) paths, in a line: `2 pairs moved (port status): a → b now a → c → b, …`."""
    shown = ", ".join(f"{' → '.join(before)} now {' → '.join(after)}" for before, after in paths[:SHOWN_MOVES])
    more = f" and {len(paths) - SHOWN_MOVES} more" if len(paths) > SHOWN_MOVES else ""
    return f"{len(paths)} {'pair' if len(paths) == 1 else 'pairs'} moved ({cause.replace('_', ' ')}): {shown}{more}"


def at_first(event: Event) -> Event:
    """The same event as a beginning that is no news: drawn, not logged."""
    return {**event, "first": True}
