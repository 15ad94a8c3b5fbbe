"""Where sites lie on the page: on a map with coastlines if all have coordinates, else as a plain graph. Pure.

The map is Miller's cylindrical projection, turned so that links are short, and cut to where the sites are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx

from topologies.model import Wan

WIDTH = 1000.0
"""Of the page's map in its own units; sites, links and text are sized in them."""
MIN_HEIGHT, MAX_HEIGHT = 430.0, 560.0
MARGIN = 90.0
"""Between the outermost sites and the edge of the map, so that their names fit."""
BEYOND = 0.8
"""How far to each side of the middle land is drawn, in widths of the map: a wide page shows more than the map."""
MIN_SPAN_DEGREES = 8.0
"""Closer than this the coastlines, good to 11 km, would show their corners."""
NEAREST = 54.0
"""Sites are moved apart until they are this far from each other, so that each can be seen and clicked."""
GRAPH_SEED = 1
SETTLING_STEPS = 200

Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Positions on a map of `WIDTH` × `height` units, y downwards; `land` is an SVG path, empty for a plain graph."""

    positions: dict[str, Point]
    height: float
    land: str


def lay_out(wan: Wan) -> Layout:
    """A place for every site."""
    on_earth = all(site.latitude is not None and site.longitude is not None for site in wan.sites)
    return _map(wan) if on_earth else _graph(wan)


def _map(wan: Wan) -> Layout:
    west = _cut_with_shortest_links(wan)
    placed = {site.name: _miller(_from(west, site.longitude or 0.0), site.latitude or 0.0) for site in wan.sites}
    xs, ys = [x for x, _ in placed.values()], [y for _, y in placed.values()]
    span_x = max(max(xs) - min(xs), MIN_SPAN_DEGREES)
    span_y = max(max(ys) - min(ys), MIN_SPAN_DEGREES / 3)
    scale = min((WIDTH - 2 * MARGIN) / span_x, (MAX_HEIGHT - 2 * MARGIN) / span_y)
    height = min(MAX_HEIGHT, max(MIN_HEIGHT, span_y * scale + 2 * MARGIN))
    middle_x, middle_y = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2

    def on_page(x: float, y: float) -> Point:
        return WIDTH / 2 + (x - middle_x) * scale, height / 2 - (y - middle_y) * scale

    positions = {name: on_page(*point) for name, point in placed.items()}
    land = " ".join(
        _path([on_page(*_miller(x, y)) for x, y in ring])
        for ring in _land(middle_x - WIDTH * BEYOND / scale, middle_x + WIDTH * BEYOND / scale)
    )
    return Layout(_apart(positions, height), height, land)


def _cut_with_shortest_links(wan: Wan) -> float:
    """The western edge of the map in degrees: in the middle of that gap between sites for which links are short."""
    longitudes = sorted({site.longitude or 0.0 for site in wan.sites})
    following = [*longitudes[1:], longitudes[0] + 360]
    cuts = [(a + b) / 2 for a, b in zip(longitudes, following, strict=True)]

    def drawn(west: float) -> float:
        ends = ((wan.site(link.a), wan.site(link.b)) for link in wan.links)
        return sum(abs(_from(west, a.longitude or 0.0) - _from(west, b.longitude or 0.0)) for a, b in ends)

    return min(cuts, key=lambda west: (round(drawn(west), 6), abs(west + 180)))


def _from(west: float, longitude: float) -> float:
    """The longitude as one of the 360 degrees from `west` on."""
    return west + (longitude - west) % 360


def _miller(longitude: float, latitude: float) -> Point:
    """Miller 1942: between Mercator's sizes and a plain grid's; in degrees at the equator."""
    y = 1.25 * math.log(math.tan(math.pi / 4 + 0.4 * math.radians(latitude)))
    return longitude, math.degrees(y)


def _land(left: float, right: float) -> Iterator[Sequence[Point]]:
    """Every coast that is between two longitudes, shifted by whole turns to where it is seen."""
    for ring in coastlines():
        longitudes = [x for x, _ in ring]
        for turn in (-360.0, 0.0, 360.0, 720.0):
            if max(longitudes) + turn >= left and min(longitudes) + turn <= right:
                yield [(x + turn, y) for x, y in ring]


@cache
def coastlines() -> tuple[tuple[Point, ...], ...]:
    """Natural Earth's coasts, 1:110 million, in degrees; see the notice beside the file."""
    file = Path(__file__).with_name("coastlines.json")
    return tuple(
        tuple(zip((v / 10 for v in ring[::2]), (v / 10 for v in ring[1::2]), strict=True))
        for ring in json.loads(file.read_text())
    )


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points) + "Z"


def _graph(wan: Wan) -> Layout:
    """By force: linked sites near each other, the same for the same WAN."""
    graph = networkx.Graph([(link.a, link.b) for link in wan.links])
    drawn = networkx.kamada_kawai_layout(graph) if len(graph) <= 80 else networkx.spring_layout(graph, seed=GRAPH_SEED)
    height = MAX_HEIGHT
    xs, ys = [x for x, _ in drawn.values()], [y for _, y in drawn.values()]
    positions = {
        site.name: (
            MARGIN + (WIDTH - 2 * MARGIN) * _share(drawn[site.name][0], xs),
            MARGIN + (height - 2 * MARGIN) * _share(drawn[site.name][1], ys),
        )
        for site in wan.sites
    }
    return Layout(_apart(positions, height), height, "")


def _share(value: float, of: Sequence[float]) -> float:
    return 0.5 if max(of) - min(of) < 1e-9 else (float(value) - min(of)) / (max(of) - min(of))


def _apart(positions: dict[str, Point], height: float) -> dict[str, Point]:
    """Move sites that lie too close away from each other, a little at a time, within the map."""
    points = {name: list(point) for name, point in positions.items()}
    names = list(points)
    nearest = min(NEAREST, 0.6 * math.sqrt(WIDTH * height / max(1, len(names))))
    for _ in range(SETTLING_STEPS):
        moved = False
        for number, a in enumerate(names):
            for b in names[number + 1 :]:
                moved |= _push(points[a], points[b], nearest, number)
        if not moved:
            break
    return {
        name: (round(min(WIDTH - 30, max(30, x)), 1), round(min(height - 30, max(30, y)), 1))
        for name, (x, y) in points.items()
    }


def _push(a: list[float], b: list[float], nearest: float, number: int) -> bool:
    dx, dy = b[0] - a[0], b[1] - a[1]
    distance = math.hypot(dx, dy)
    if distance >= nearest:
        return False
    if distance < 1e-6:
        dx, dy, distance = math.cos(number), math.sin(number), 1.0
    step = max(0.0, nearest - distance) / 2 + 0.1
    a[0], a[1] = a[0] - dx / distance * step, a[1] - dy / distance * step
    b[0], b[1] = b[0] + dx / distance * step, b[1] + dy / distance * step
    return True
