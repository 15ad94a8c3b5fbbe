"""What a program took in each arm, out of its run folder alone, for people and as JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.execution.output import LONGEST_LINE
from testbed.execution.steps import step_pattern, step_times_s
from testbed.fidelity import Verdict, combine
from testbed.runfolder import GATE, MANIFEST, SUMMARY_JSON, SUMMARY_TEXT, RunFolder, open_run
from topologies.errors import RingroadError

KIND = "exec"
"""What the manifest of such a run calls itself."""

NOT_MOVES = ("reset", "pin")


@dataclass(frozen=True)
class ArmTimes:
    """One arm, all its blocks together. Times in s; None where there is nothing to tell.

    Steps: as rank 0 printed them, without the first of each block, which warms up. `speedup`: how many times faster
    than `static` in the same block by the median step, or by the wall time where no steps are printed; geometric mean.
    """

    blocks: int
    exit_code: int
    wall_s: float
    steps: int
    step_median_s: float | None
    step_p95_s: float | None
    collectives: int
    collective_median_s: float | None
    limit_fraction: float | None
    ring_changes: int
    ring_changes_considered: int
    reconfigurations: int
    speedup: float | None


@dataclass(frozen=True)
class ProgramSummary:
    """The whole run. `reasons`: why it is not to be trusted."""

    run_id: str
    started: str
    command: tuple[str, ...]
    wan: str
    workers_per_dc: int
    gloo: str
    arms: dict[str, ArmTimes]
    exit_code: int
    trustworthy: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


def is_exec(folder: Path) -> bool:
    """Whether it is the run folder of a program."""
    manifest = open_run(folder).read_json(MANIFEST)
    return isinstance(manifest, dict) and manifest.get("kind") == KIND


def make_summary(path: Path) -> ProgramSummary:
    """Write `summary.json` and `summary.txt`, finished or not. RingroadError if the folder is damaged."""
    from testbed.execution.table import summary_text

    folder = open_run(path)
    try:
        summary = summarize(folder)
    except (LookupError, TypeError, ValueError, AttributeError, OSError) as error:
        message = f"{path} is damaged: something in its files is not what a run writes ({error!r})"
        raise RingroadError(message, "restore the folder, or run again") from error
    folder.write_json(SUMMARY_JSON, summary)
    folder.write_bytes(SUMMARY_TEXT, summary_text(summary).encode())
    return summary


def summarize(folder: RunFolder) -> ProgramSummary:
    """From the arms that have ended."""
    manifest = folder.read_json(MANIFEST)
    finished = folder.read_arms()
    by_arm: dict[str, list[_Block]] = {}
    for line in finished:
        by_arm.setdefault(line["arm"], []).append(_block(folder, line, manifest["step"]))
    order = {name: place for place, name in enumerate(("static", "wan", "ccl", "joint"))}
    arms = {
        name: _arm(by_arm[name], by_arm.get("static", [])) for name in sorted(by_arm, key=lambda n: order.get(n, 9))
    }
    gate = folder.read_json(GATE)
    reasons = _reasons(gate, finished)
    return ProgramSummary(
        run_id=manifest["run_id"],
        started=manifest["started"],
        command=tuple(manifest["program"]["command"]),
        wan=manifest["experiment"]["wan"]["name"],
        workers_per_dc=manifest["program"]["per_dc"],
        gloo=manifest["program"]["gloo"],
        arms=arms,
        exit_code=max((line["exit_code"] for line in finished), default=1),
        trustworthy=not reasons,
        reasons=reasons,
        notes=tuple(manifest["notes"])
        + (() if gate else ("no fidelity gate: whether links carry their rates is open",)),
    )


@dataclass(frozen=True)
class _Block:
    """One arm in one block."""

    number: int
    exit_code: int
    wall_s: float
    steps_s: list[float]
    collectives: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    reconfigurations: int

    @property
    def pace_s(self) -> float:
        """What counts when arms are compared: the median step, else the whole time."""
        return statistics.median(self.steps_s) if self.steps_s else self.wall_s


def _block(folder: RunFolder, line: dict[str, Any], step: str) -> _Block:
    block, arm = line["block"], line["arm"]
    times = _steps_s(folder.logs / f"block{block}-{arm}" / "rank0.log", step)
    moves = [r for r in folder.read(block, arm, "reconfigurations") if r["cause"] not in NOT_MOVES]
    return _Block(
        number=block,
        exit_code=line["exit_code"],
        wall_s=line["ended_at"] - line["launched_at"],
        steps_s=times[1:] if len(times) > 1 else times,
        collectives=folder.read(block, arm, "collectives"),
        changes=folder.read(block, arm, "ring_changes"),
        reconfigurations=len(moves),
    )


def _steps_s(log: Path, step: str) -> list[float]:
    if not log.exists():
        return []
    with log.open(errors="replace") as file:
        lines = iter(lambda: file.readline(LONGEST_LINE), "")
        return step_times_s(lines, step_pattern(step))


def _arm(blocks: Sequence[_Block], static: Sequence[_Block]) -> ArmTimes:
    steps = [time for block in blocks for time in block.steps_s]
    collectives = [each for block in blocks for each in block.collectives]
    fractions = [each["limit_s"] / each["time_s"] for each in collectives if each["limit_s"] and each["time_s"] > 0]
    changes = [change for block in blocks for change in block.changes]
    return ArmTimes(
        blocks=len(blocks),
        exit_code=max(block.exit_code for block in blocks),
        wall_s=statistics.fmean(block.wall_s for block in blocks),
        steps=len(steps),
        step_median_s=_median(steps),
        step_p95_s=_percentile(steps, 0.95),
        collectives=len(collectives),
        collective_median_s=_median(each["time_s"] for each in collectives),
        limit_fraction=_median(fractions),
        ring_changes=sum(bool(change["changed"]) for change in changes),
        ring_changes_considered=len(changes),
        reconfigurations=sum(block.reconfigurations for block in blocks),
        speedup=_speedup(blocks, static),
    )


def _speedup(blocks: Sequence[_Block], static: Sequence[_Block]) -> float | None:
    paces = {block.number: block.pace_s for block in static if block.exit_code == 0}
    ratios = [paces[b.number] / b.pace_s for b in blocks if b.number in paces and b.exit_code == 0 and b.pace_s > 0]
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios and min(ratios) > 0 else None


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.median(known) if known else None


def _percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def _reasons(gate: dict[str, Any] | None, arms: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    before = _verdict(gate) if gate else Verdict(True)
    return combine(before, {f"block {arm['block']}, {arm['arm']}": _verdict(arm["verdict"]) for arm in arms}).reasons


def _verdict(plain: dict[str, Any]) -> Verdict:
    return Verdict(not plain["reasons"], tuple(plain["reasons"]))


def plain(summary: ProgramSummary) -> dict[str, Any]:
    """For `--json`."""
    return asdict(summary)
