"""Makes the dashboard's coastlines out of Natural Earth's, as the npm package world-atlas has them (TopoJSON).

npm pack world-atlas@2.0.2 && tar xf world-atlas-2.0.2.tgz
PYTHONPATH=scripts .venv/bin/python -m filming.coastlines package/land-110m.json >testbed/live/web/coastlines.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

DEGREE_PARTS = 10
"""Coordinates become whole tenths of a degree: 11 km, finer than a world map shows."""
SOUTHERNMOST = -60.0
"""Antarctica is left out: no WAN ends there."""

Ring = list[tuple[int, int]]


def coastlines(topology: dict[str, Any]) -> list[Ring]:
    """Boundaries of land and of the seas in it, each a closed list of (longitude, latitude) in tenths of a degree."""
    arcs = [list(_degrees(arc, topology["transform"])) for arc in topology["arcs"]]
    rings = []
    for geometry in topology["objects"]["land"]["geometries"]:
        polygons = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
        for boundary in [boundary for polygon in polygons for boundary in polygon]:
            points = [point for index in boundary for point in (arcs[index] if index >= 0 else arcs[~index][::-1])]
            if max(latitude for _, latitude in points) > SOUTHERNMOST:
                rings.append(_rounded(points))
    return [ring for ring in rings if len(ring) > 3]


def _degrees(arc: Sequence[Sequence[int]], transform: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Absolute degrees of an arc that holds quantized differences (TopoJSON 2.1.1 and 2.1.3)."""
    (scale_x, scale_y), (left, bottom) = transform["scale"], transform["translate"]
    for x, y in accumulate(arc, lambda at, step: [at[0] + step[0], at[1] + step[1]]):
        yield x * scale_x + left, y * scale_y + bottom


def _rounded(points: Sequence[tuple[float, float]]) -> Ring:
    """Without jumps: a ring that crosses the date line goes on beyond 180 degrees."""
    turns = accumulate(points, lambda at, to: (at[0] + (to[0] - at[0] + 180) % 360 - 180, to[1]))
    whole = [(round(x * DEGREE_PARTS), round(y * DEGREE_PARTS)) for x, y in turns]
    return [point for index, point in enumerate(whole) if index == 0 or point != whole[index - 1]]


if __name__ == "__main__":
    rings = coastlines(json.loads(Path(sys.argv[1]).read_text()))
    print(json.dumps([[value for point in ring for value in point] for ring in rings], separators=(",", ":")))
