"""The summary of a program's run as a table for people. Computes nothing."""

from __future__ import annotations

import shlex

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.execution.summary import ArmTimes, ProgramSummary
from testbed.report.table import WIDE, not_trustworthy, text_of
from topologies.units import format_duration

_COLUMNS = (
    "wall\ntime",
    "steps",
    "step\nmedian",
    "step\np95",
    "×\nstatic",
    "bulk col-\nlectives",
    "their\nmedian",
    "of\nlimit",
    "ring\nchanges",
    "reconfig-\nurations",
    "exit\ncode",
)
_WIDE_ONLY = ("wall\ntime", "steps", "step\np95", "bulk col-\nlectives", "reconfig-\nurations")


def print_summary(summary: ProgramSummary, console: Console) -> None:
    """Show it; on a narrow console the table has fewer columns."""
    console.print(_everything(summary, console.width >= WIDE))


def summary_text(summary: ProgramSummary) -> str:
    """The same as plain text: the content of `summary.txt`."""
    return text_of(lambda console: print_summary(summary, console))


def _everything(summary: ProgramSummary, wide: bool) -> Group:
    parts: list[RenderableType] = []
    if not summary.trustworthy:
        parts.append(not_trustworthy(summary.reasons))
    title = Text(shlex.join(summary.command), style="bold")
    where = f"  ({summary.wan}, {summary.workers_per_dc} per DC, run {summary.run_id}, {summary.started})"
    parts.append(title.append(where, style="not bold dim"))
    if summary.arms:
        parts.append(_table(summary, wide))
        parts.append(Text(_legend(summary), style="dim"))
    parts += [Text(f"• {note}", style="dim") for note in summary.notes]
    return Group(*parts)


def _legend(summary: ProgramSummary) -> str:
    blocks = max(arm.blocks for arm in summary.arms.values())
    backend = "gloo is the ring backend" if summary.gloo == "ring" else "gloo is gloo"
    what = "steps" if any(arm.steps for arm in summary.arms.values()) else "wall times"
    return (
        f"Steps are those that rank 0 printed, but for the first. × static compares {what} in the same block, "
        f"{blocks} in all, without an interval. Bulk collectives are those that go round the ring ({backend}); "
        "of limit: the least time that the links' capacities allow ÷ the time taken, at the median."
    )


def _table(summary: ProgramSummary, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    table.add_column("arm", no_wrap=True)
    shown = [index for index, column in enumerate(_COLUMNS) if wide or column not in _WIDE_ONLY]
    for index in shown:
        table.add_column(_COLUMNS[index], justify="right", no_wrap=True)
    for name, arm in summary.arms.items():
        cells = _cells(name, arm)
        table.add_row(name, *(cells[index] for index in shown))
    return table


def _cells(name: str, arm: ArmTimes) -> list[str]:
    return [
        format_duration(arm.wall_s),
        str(arm.steps),
        _seconds(arm.step_median_s),
        _seconds(arm.step_p95_s),
        "1" if name == "static" else "–" if arm.speedup is None else f"{arm.speedup:.2f}",
        str(arm.collectives),
        _seconds(arm.collective_median_s),
        "–" if arm.limit_fraction is None else f"{arm.limit_fraction:.0%}",
        f"{arm.ring_changes} of {arm.ring_changes_considered}",
        str(arm.reconfigurations),
        str(arm.exit_code),
    ]


def _seconds(time_s: float | None) -> str:
    if time_s is None:
        return "–"
    return f"{time_s:.2f} s" if time_s >= 1 else f"{time_s * 1e3:.0f} ms"
