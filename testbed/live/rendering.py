"""A snapshot in words, for a terminal. Pure, and quick: no library for tables is loaded for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.live.protocol import Collective, EdgeState, Snapshot
from topologies.units import format_duration, format_rate, format_size

SHOWN_COLLECTIVES = 8
SHOWN_LOG = 8


def render(snapshot: Snapshot, all_routes: bool = False) -> list[str]:
    """Everything that `ringroad status` says, line by line."""
    return [
        *_head(snapshot),
        "",
        *_table(("link", "set to", "carries", "", "queue", "drops"), [_edge(edge) for edge in snapshot.links]),
        "",
        *_routes(snapshot, all_routes),
        *_collectives(snapshot.collectives[-SHOWN_COLLECTIVES:]),
        *_log(snapshot),
    ]


def _head(snapshot: Snapshot) -> Iterator[str]:
    control, workers, trace = snapshot.control, snapshot.workers, snapshot.trace
    dcs = sum(site.kind == "dc" for site in snapshot.sites)
    yield (
        f"{snapshot.wan}: {dcs} DCs, {len(snapshot.wan_links)} links; run {snapshot.run_id}, process {snapshot.pid}, "
        f"since {snapshot.started}"
    )
    crashed = set(snapshot.workers.crashed)
    yield "sites: " + ", ".join(f"{s.name}{' (crashed)' if s.name in crashed else ''} {s.ip}" for s in snapshot.sites)
    yield (
        f"arm {control.arm}: paths by {control.policy}, T_wan {format_duration(control.period_s)}; ring agent every "
        f"{control.reorder_every} collectives in ccl and joint"
    )
    if workers.state == "off":
        yield "workers: none"
    else:
        pace = "back to back" if workers.every_s is None else f"every {format_duration(workers.every_s)}"
        dead = f"; crashed: {', '.join(workers.crashed)}" if workers.crashed else ""
        reason = f" ({workers.reason})" if workers.reason else ""
        yield f"workers: {workers.state}{reason}, {format_size(workers.size_bytes)} from each DC, {pace}{dead}"
        pinned = ", pinned" if snapshot.ring.pinned else ""
        yield f"ring: {' → '.join(snapshot.ring.order)}  (changed {snapshot.ring.epoch} times{pinned})"
    if trace.name is not None:
        yield f"trace: {trace.name}, {'playing' if trace.playing else 'stopped'}"
    if (kernel := snapshot.kernel) is not None:
        yield f"kernel: {kernel.kernel} ({kernel.mode}), Linux {kernel.version}"
    if snapshot.dashboard is not None:
        yield f"dashboard: {snapshot.dashboard}"
    yield from (f"note: {note}" for note in snapshot.notes)


def _edge(edge: EdgeState) -> tuple[str, ...]:
    rate = format_rate(edge.rate_bps)
    extras = [f"{edge.delay_s * 1e3:g} ms"] if edge.delay_s else []
    extras += [f"loss {edge.loss * 100:g} %"] if edge.loss else []
    state = "DOWN" if not edge.up else "BLACKHOLE" if edge.blackholed else ""
    share = f"{edge.carried_bps / edge.rate_bps:.0%}" if edge.rate_bps else ""
    return (
        f"{edge.source} → {edge.target}",
        ", ".join([rate, *extras]),
        format_rate(edge.carried_bps),
        state or share,
        format_size(edge.backlog_bytes),
        str(edge.drops),
    )


def _routes(snapshot: Snapshot, all_routes: bool) -> Iterator[str]:
    shown = [route for route in snapshot.routes if all_routes or route.active]
    if shown:
        yield "routes" if all_routes else f"routes of the {len(shown)} pairs that send (of {len(snapshot.routes)})"
        yield from (f"  {' → '.join(route.path)}" for route in shown)
        yield ""


def _collectives(collectives: Sequence[Collective]) -> Iterator[str]:
    if not collectives:
        return
    rows = [
        (
            str(each.number),
            each.arm,
            format_duration(each.time_s),
            "cut off" if each.limit_s is None else format_duration(each.limit_s),
            "" if each.limit_s is None else f"{each.limit_s / each.time_s:.0%}",
            "every element right" if each.verified else "not verified",
        )
        for each in collectives
    ]
    yield from _table(("collective", "arm", "time", "limit", "of limit", ""), rows)
    yield ""


def _log(snapshot: Snapshot) -> Iterator[str]:
    yield from (f"{entry.at - snapshot.now:+8.1f} s  {entry.text}" for entry in snapshot.log[-SHOWN_LOG:])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([first, *rest]).rstrip()
