"""The summary as a table for people: on a terminal with colour, in `summary.txt` without. Computes nothing."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from testbed.report.statistics import ArmFigures, Comparison
from testbed.report.summary import Summary
from testbed.report.wording import difference_can_be_told, speedup_text

TEXT_WIDTH = 118
WIDE = 110


def print_summary(summary: Summary, console: Console) -> None:
    """Show the summary; on a narrow console the table has fewer columns."""
    console.print(_everything(summary, console.width >= WIDE))


def summary_text(summary: Summary) -> str:
    """The same as plain text, `TEXT_WIDTH` columns wide: the content of `summary.txt`."""
    return text_of(lambda console: print_summary(summary, console))


def text_of(show: Callable[[Console], None]) -> str:
    """What `show` prints on a console, as plain text of `TEXT_WIDTH` columns."""
    console = Console(file=io.StringIO(), width=TEXT_WIDTH, color_system=None, force_terminal=False, highlight=False)
    show(console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def not_trustworthy(reasons: Iterable[str]) -> Panel:
    """The box above the table of a run that is not to be trusted."""
    text = Text("\n".join(f"• {reason}" for reason in reasons))
    return Panel(text, title="NOT TRUSTWORTHY", title_align="left", style="bold red", expand=False)


def _everything(summary: Summary, wide: bool) -> Group:
    parts: list[RenderableType] = []
    if not summary.trustworthy:
        parts.append(not_trustworthy(summary.reasons))
    parts.append(_title(summary))
    if summary.arms:
        parts.append(_table(summary, wide))
    parts.append(Text(summary.conclusion, style="bold"))
    if summary.interaction_sentence:
        parts.append(Text(summary.interaction_sentence))
    if summary.arms:
        parts.append(Text(_LEGEND, style="dim"))
    notes = [Text(f"• {note}", style="dim") for note in (*summary.notes, *summary.labels)]
    parts.append(Padding(Group(*notes), (0, 0, 0, 1)))
    return Group(*parts)


_LEGEND = (
    "Times are those of single collectives. × static: how many times faster than static, (interval over blocks); "
    "“charged” is the mean of all collectives with the ring agent's time added, and decides. "
    "Of limit: the least time that the links' capacities allow ÷ the time taken."
)


def _title(summary: Summary) -> Text:
    blocks = f"{summary.blocks_finished} of {summary.blocks_planned} blocks"
    title = Text(f"{summary.experiment}", style="bold")
    details = ", ".join(
        part for part in (blocks, f"run {summary.run_id}" if summary.run_id else "", summary.started) if part
    )
    return title.append(f"  ({details})", style="not bold dim")


def _table(summary: Summary, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    table.add_column("arm", no_wrap=True)
    rows = [list(_cells(arm, figures, summary.comparison(arm, "static"))) for arm, figures in summary.arms.items()]
    shown = [index for index, column in enumerate(_COLUMNS) if wide or column not in _WIDE_ONLY]
    for index in shown:
        table.add_column(_COLUMNS[index], justify="right", no_wrap=True)
    for arm, row in zip(summary.arms, rows, strict=True):
        table.add_row(arm, *(row[index] for index in shown))
    return table


_COLUMNS = (
    "median",
    "p95",
    "p99",
    "× static\nby median",
    "× static\ncharged",
    "of\nlimit",
    "agent's\ntime",
    "reconfig-\nurations",
    "ring\nchanges",
    "busbw\nMB/s",
)
_WIDE_ONLY = ("p99", "× static\nby median", "busbw\nMB/s")


def _cells(arm: str, figures: ArmFigures, against_static: Comparison | None) -> Iterator[RenderableType]:
    """One arm's cells, in the order of `_COLUMNS`."""
    for time_s in (figures.median_s, figures.p95_s, figures.p99_s):
        yield _seconds(time_s)
    if against_static is None:
        yield from ("1" if arm == "static" else "–",) * 2
    else:
        for estimate in (against_static.by_median, against_static.by_charged_time):
            style = "" if not difference_can_be_told(estimate) else "green" if estimate.value > 1 else "red"
            yield Text(speedup_text(estimate), style=style)
    yield "–" if figures.limit_fraction is None else f"{figures.limit_fraction:.0%}"
    yield f"{figures.agent_share:.1%}"
    yield str(figures.reconfigurations)
    yield f"{figures.ring_changes} of {figures.ring_changes_considered}"
    yield f"{figures.busbw_gb_per_s * 1e3:.1f}"


def _seconds(time_s: float) -> str:
    return f"{time_s:.2f} s" if time_s >= 1 else f"{time_s * 1e3:.0f} ms"
