"""The pictures of a report: completion time over time above the links' capacities, and its distribution per arm.

Draws into bytes, never on a screen. Colours are Okabe and Ito's, which colour-blind readers can tell apart.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from testbed.report.records import ArmRun
from testbed.report.statistics import paired_blocks
from testbed.report.summary import Summary
from testbed.report.wording import speedup_text
from testbed.runfolder import MANIFEST, RunFolder

COMPLETION_TIME, DISTRIBUTION = "completion_time.png", "distribution.png"
ARM_COLOURS = {"static": "#000000", "wan": "#0072B2", "ccl": "#E69F00", "joint": "#009E73"}
FAULT_COLOUR = "#D55E00"
LINK_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
MAX_LINKS_NAMED = 12
MAX_NAME_SHOWN = 50
WIDTH_INCHES, DOTS_PER_INCH = 9.0, 150
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
}


def draw(folder: RunFolder, runs: Sequence[ArmRun], summary: Summary) -> dict[str, bytes]:
    """PNG files by name; none while no collective is finished."""
    measured = [run for run in runs if run.collectives]
    if not measured:
        return {}
    experiment = folder.read_json(MANIFEST)["experiment"]
    with pyplot.rc_context(STYLE), _no_figure_left():
        pictures = {COMPLETION_TIME: _png(_completion_time(folder, measured, experiment, summary))}
        if summary.arms:
            finished = [run for run in measured if run.finished]
            pictures[DISTRIBUTION] = _png(_distribution(finished, summary))
    return pictures


@contextmanager
def _no_figure_left() -> Iterator[None]:
    """Close what was begun here, also where drawing failed halfway: pyplot would keep it."""
    before = set(pyplot.get_fignums())
    try:
        yield
    finally:
        for number in set(pyplot.get_fignums()) - before:
            pyplot.close(number)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": "ringroad"})
    return buffer.getvalue()


def _completion_time(
    folder: RunFolder, runs: Sequence[ArmRun], experiment: Mapping[str, Any], summary: Summary
) -> Figure:
    """One block, one strip per arm, all over the same seconds; the first block in which every arm finished."""
    shown = _block_to_show(runs, list(experiment["arms"]))
    longest = max(shown, key=_length_s)
    figure, axes = pyplot.subplots(
        len(shown) + 1,
        sharex=True,
        figsize=(WIDTH_INCHES, 1.2 * len(shown) + 3.0),
        height_ratios=[*[1.0] * len(shown), 1.7],
        gridspec_kw={"left": 0.09, "right": 0.84, "top": 0.90, "bottom": 0.07, "hspace": 0.4},
    )
    slowest_s = max(collective.duration_s for run in shown for collective in run.collectives)
    for axis, run in zip(axes, shown, strict=False):
        _strip(axis, run, slowest_s)
    axes[0].set_title("seconds that each AllGather took", loc="left", fontsize=10)
    _capacities(axes[-1], folder, longest, experiment["wan"]["links"], _length_s(longest))
    for axis in axes:
        _shade_faults(axis, experiment["faults"], _length_s(longest))
    axes[-1].set_xlim(0, _length_s(longest))
    axes[-1].set_xlabel("seconds since the start of the arm")
    _head(figure, f"block {shown[0].block} of {summary.blocks_planned}", summary)
    figure.legend(handles=_legend(experiment), loc="upper right", bbox_to_anchor=(0.85, 0.965), ncols=4, fontsize=9)
    return figure


def _length_s(run: ArmRun) -> float:
    return run.collectives[-1].end - run.started_at


def _block_to_show(runs: Sequence[ArmRun], arms: Sequence[str]) -> list[ArmRun]:
    complete = paired_blocks(runs, arms)
    chosen = complete[0] if complete else {run.arm: run for run in runs if run.block == runs[0].block}
    return [chosen[arm] for arm in arms if arm in chosen]


def _strip(axis: Axes, run: ArmRun, slowest_s: float) -> None:
    colour = ARM_COLOURS.get(run.arm, "#000000")
    for collective in run.collectives:
        since, until = collective.start - run.started_at, collective.end - run.started_at
        axis.plot([since, until], [collective.duration_s] * 2, color=colour, linewidth=2.4, solid_capstyle="butt")
        if collective.limit_s is not None:
            axis.plot([since, until], [collective.limit_s] * 2, color="#999999", linewidth=1.2, solid_capstyle="butt")
    starts = [collective.start - run.started_at for collective in run.collectives]
    durations = [collective.duration_s for collective in run.collectives]
    axis.step(starts, durations, where="post", color=colour, linewidth=0.8, alpha=0.5)
    top = slowest_s * 1.35
    for moments, height, mark in (
        (run.reconfigured_at, 0.97, _RECONFIGURED),
        (run.ring_changed_at, 0.84, _RING_CHANGED),
    ):
        seconds = [max(0.0, moment - run.started_at) for moment in moments]
        axis.plot(seconds, [top * height] * len(seconds), **mark)
    axis.set_ylim(0, top)
    axis.text(1.02, 0.5, run.arm, transform=axis.transAxes, va="center", color=colour, fontweight="bold", fontsize=12)


_RECONFIGURED = {"marker": "v", "color": "#0072B2", "linestyle": "none", "markersize": 6, "clip_on": False}
_RING_CHANGED = {"marker": "o", "color": "#E69F00", "linestyle": "none", "markersize": 5, "clip_on": False}


def _capacities(axis: Axes, folder: RunFolder, run: ArmRun, links: Sequence[Mapping[str, Any]], end_s: float) -> None:
    """What every link could carry in that arm; both directions of a link in one colour, the way back dashed."""
    changes = folder.read(run.block, run.arm, "changes")
    faults = folder.read(run.block, run.arm, "faults")
    for index, link in enumerate(links):
        colour = LINK_COLOURS[index % len(LINK_COLOURS)]
        dashes = "-" if index < len(LINK_COLOURS) else (0, (1, 1))
        states = [(fault["planned_s"], fault["state"] == "up") for fault in faults if fault.get("link") == link["name"]]
        forward = _course((link["a"], link["b"]), link["forward"]["rate_bps"], changes, states, end_s)
        backward = _course((link["b"], link["a"]), link["backward"]["rate_bps"], changes, states, end_s)
        axis.step(*forward, where="post", color=colour, linewidth=1.5, linestyle=dashes, label=link["name"])
        if backward != forward:
            axis.step(*backward, where="post", color=colour, linewidth=1.0, linestyle=(0, (4, 2)))
    axis.set_ylim(bottom=0)
    axis.set_title(f"capacity of each of the {len(links)} links in Mbit/s", loc="left", fontsize=10)
    if len(links) <= MAX_LINKS_NAMED:
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5, handlelength=1.4, labelspacing=0.35)


def _course(
    edge: tuple[str, str],
    rate_bps: float,
    changes: Sequence[Mapping[str, Any]],
    states: Sequence[tuple[float, bool]],
    end_s: float,
) -> tuple[list[float], list[float]]:
    """Seconds and Mbit/s of one directed edge, as steps up to `end_s`. `states` say from when on anything passes."""
    rates = [
        (change["planned_s"], new_bps)
        for change in changes
        for source, target, new_bps in change["rates"]
        if (source, target) == edge
    ]
    course, passes = {0.0: rate_bps / 1e6}, True
    for planned_s, news in sorted([*rates, *states], key=lambda event: event[0]):
        if isinstance(news, bool):
            passes = news
        else:
            rate_bps = news
        if planned_s < end_s:
            course[planned_s] = rate_bps / 1e6 if passes else 0.0
    return [*course, end_s], [*course.values(), list(course.values())[-1]]


def _shade_faults(axis: Axes, faults: Sequence[Mapping[str, Any]], end_s: float) -> None:
    for fault in faults:
        if fault["kind"] == "crash":
            axis.axvline(fault["at"], color=FAULT_COLOUR, linewidth=1.5)
        if fault["kind"] != "crash" or fault.get("for") is not None:
            _shade(axis, fault, end_s)


def _shade(axis: Axes, fault: Mapping[str, Any], end_s: float) -> None:
    if fault["at"] < end_s:
        until = end_s if fault.get("for") is None else min(end_s, fault["at"] + fault["for"])
        axis.axvspan(fault["at"], until, color=FAULT_COLOUR, alpha=0.15, linewidth=0)


def _legend(experiment: Mapping[str, Any]) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = [
        Line2D([], [], color="#999999", linewidth=1.2, label="physical limit"),
        Line2D([], [], **_RECONFIGURED, label="paths moved"),
        Line2D([], [], **_RING_CHANGED, label="ring changed"),
    ]
    if experiment["faults"]:
        handles.append(Patch(color=FAULT_COLOUR, alpha=0.3, label="fault"))
    return handles


def _distribution(runs: Sequence[ArmRun], summary: Summary) -> Figure:
    """Share of collectives done within a time, per arm; medians marked, ratios named."""
    figure, axis = pyplot.subplots(
        figsize=(WIDTH_INCHES, 4.6), gridspec_kw={"left": 0.1, "right": 0.97, "top": 0.79, "bottom": 0.12}
    )
    for arm, figures in summary.arms.items():
        durations = [collective.duration_s for run in runs if run.arm == arm for collective in run.collectives]
        colour = ARM_COLOURS.get(arm, "#000000")
        axis.ecdf(durations, color=colour, linewidth=2.2, label=_label(arm, figures.median_s, summary))
        axis.plot(figures.median_s, 0.5, marker="o", color=colour, markersize=9, markeredgecolor="white")
    axis.set_xlim(left=0)
    axis.set_ylim(0, 1)
    axis.set_yticks(numpy.linspace(0, 1, 5), [f"{share:.0%}" for share in numpy.linspace(0, 1, 5)])
    axis.set_xlabel("seconds that one AllGather took")
    axis.set_ylabel("of all AllGathers took no longer")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, fontsize=10, columnspacing=2.5)
    _head(figure, f"{summary.blocks_finished} of {summary.blocks_planned} blocks", summary)
    return figure


def _label(arm: str, median_s: float, summary: Summary) -> str:
    label = f"{arm}: median {median_s:.2f} s"
    comparison = summary.comparison(arm, "static")
    return label if comparison is None else f"{label}, × static {speedup_text(comparison.by_charged_time)}"


def _head(figure: Figure, text: str, summary: Summary) -> None:
    """What is shown, in one line over the whole width."""
    name = shorten(summary.experiment, MAX_NAME_SHOWN, placeholder="…")
    doubt = "" if summary.trustworthy else "   NOT TRUSTWORTHY"
    colour = "black" if summary.trustworthy else FAULT_COLOUR
    figure.text(0.02, 0.985, f"{name}: {text}{doubt}", fontsize=12, fontweight="bold", va="top", color=colour)
