"""A WAN as text for people: a map, its sites with their neighbours, its links with rates and lengths. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topologies.geography import fibre_delay_s, great_circle_km
from topologies.model import EdgeProperties, Link, Site, Wan
from topologies.units import format_duration, format_rate

MAP_WIDTH, MAP_HEIGHT = 76, 18
MARKS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def headline(wan: Wan) -> str:
    """One line: `six     6 DCs, 9 links, 40 Mbit/s to 60 Mbit/s`."""
    transit = len(wan.sites) - len(wan.dcs)
    sites = f"{len(wan.dcs)} DCs" + (f", {transit} transit" if transit else "")
    rates = sorted({properties.rate_bps for properties in wan.edges.values()})
    shown = " to ".join(format_rate(rate_bps) for rate_bps in dict.fromkeys((rates[0], rates[-1])))
    return f"{wan.name}: {sites}, {len(wan.links)} links, {shown}"


def summary(wan: Wan) -> str:
    """Everything `ringroad topologies show` prints; lines end in a newline each."""
    parts = [headline(wan), wan.description, draw_map(wan), _site_table(wan), _link_table(wan)]
    return "\n\n".join(part for part in parts if part) + "\n"


def draw_map(wan: Wan) -> str:
    """Sites as marks where they lie, links as dots between them; empty if a site has no coordinates or all are one."""
    spots = _spots(wan.sites)
    if not spots or len(wan.sites) > len(MARKS):
        return ""
    canvas = [[" "] * MAP_WIDTH for _ in range(MAP_HEIGHT)]
    for link in wan.links:
        for column, row in _line(spots[link.a], spots[link.b]):
            canvas[row][column] = "·"
    for mark, site in zip(MARKS[1:], wan.sites, strict=False):
        column, row = spots[site.name]
        canvas[row][column] = mark
    return "\n".join("".join(row).rstrip() for row in canvas).strip("\n")


def _spots(sites: Sequence[Site]) -> dict[str, tuple[int, int]]:
    """(column, row) of every site; the map is cut at the widest empty stretch of longitude."""
    places = [(site.name, site.latitude, site.longitude) for site in sites]
    if any(latitude is None or longitude is None for _, latitude, longitude in places):
        return {}
    longitudes = sorted(longitude for _, _, longitude in places)
    gaps = [(after - before) % 360 for before, after in zip(longitudes, longitudes[1:] + longitudes[:1], strict=True)]
    west = longitudes[(gaps.index(max(gaps)) + 1) % len(longitudes)]
    width = max((longitude - west) % 360 for longitude in longitudes)
    north = max(latitude for _, latitude, _ in places)
    height = north - min(latitude for _, latitude, _ in places)
    return {
        name: (
            round((longitude - west) % 360 / (width or 1) * (MAP_WIDTH - 1)),
            round((north - latitude) / (height or 1) * (MAP_HEIGHT - 1)),
        )
        for name, latitude, longitude in places
    }


def _line(start: tuple[int, int], end: tuple[int, int]) -> Iterable[tuple[int, int]]:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(steps + 1):
        share = step / steps
        yield round(start[0] + (end[0] - start[0]) * share), round(start[1] + (end[1] - start[1]) * share)


def _site_table(wan: Wan) -> str:
    rows = [("", "site", "kind", "links", "neighbours")]
    for index, site in enumerate(wan.sites, start=1):
        near = wan.neighbors(site.name)
        mark = MARKS[index] if index < len(MARKS) else ""
        rows.append((mark, site.name, site.kind, str(len(near)), ", ".join(near)))
    return table(rows)


def _link_table(wan: Wan) -> str:
    rows = [("link", "rate", "delay", "length", "light in fibre")]
    for link in wan.links:
        length_km = great_circle_km(wan.site(link.a), wan.site(link.b))
        rows.append((link.name, *_properties(link), *_length(length_km)))
    return table(rows)


def _properties(link: Link) -> tuple[str, str]:
    def _both(forward: str, backward: str) -> str:
        return forward if forward == backward else f"{forward} → ← {backward}"

    return (
        _both(format_rate(link.forward.rate_bps), format_rate(link.backward.rate_bps)),
        _both(_delay(link.forward), _delay(link.backward)),
    )


def _delay(properties: EdgeProperties) -> str:
    text = format_duration(properties.delay_s) if properties.delay_s else "none"
    text += f" ± {format_duration(properties.jitter_s)}" if properties.jitter_s else ""
    for word, share in (("loss", properties.loss), ("reorder", properties.reorder)):
        text += f", {word} {share:.2g}" if share else ""
    return text


def _length(length_km: float | None) -> tuple[str, str]:
    if length_km is None:
        return "?", "?"
    return f"{length_km:,.0f} km", format_duration(fibre_delay_s(length_km))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns, the first row as heads."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
