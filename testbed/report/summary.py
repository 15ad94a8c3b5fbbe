"""Everything a report says, as one value: from a run folder, finished or not, to `summary.json`.

Draws and prints nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.fidelity import Verdict, combine, verdict_from_json
from testbed.report.memberships import membership_notes
from testbed.report.records import ArmRun
from testbed.report.statistics import (
    ArmFigures,
    Comparison,
    Estimate,
    arm_figures,
    compare,
    interaction,
    paired_blocks,
)
from testbed.report.wording import conclusion, interaction_sentence, interval_notes
from testbed.runfolder import GATE, MANIFEST, RunFolder

FORMAT = 1
"""Of summary.json: counts up when a key changes its meaning or goes away."""


@dataclass(frozen=True)
class Summary:
    """A run in figures and sentences. `exit_code` is what `ringroad run` returns for it."""

    format: int
    experiment: str
    run_id: str
    started: str
    folder: str
    trustworthy: bool
    reasons: tuple[str, ...]
    blocks_planned: int
    blocks_finished: int
    arms: dict[str, ArmFigures]
    comparisons: tuple[Comparison, ...]
    interaction: Estimate | None
    conclusion: str
    interaction_sentence: str
    labels: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0, or 3 for a run that is not trustworthy."""
        return 0 if self.trustworthy else 3

    def comparison(self, arm: str, against: str) -> Comparison | None:
        """That of these two, if they have a block in common."""
        return next((c for c in self.comparisons if (c.arm, c.against) == (arm, against)), None)


def summarize(folder: RunFolder, runs: Sequence[ArmRun]) -> Summary:
    """The summary of what has been measured so far. `runs` are those of the folder (`records.read_runs`)."""
    manifest = folder.read_json(MANIFEST)
    experiment = manifest["experiment"]
    planned = [str(arm) for arm in experiment["arms"]]
    finished = [run for run in runs if run.finished and run.collectives]
    figures = {arm: _figures([run for run in finished if run.arm == arm], experiment) for arm in planned}
    arms = {arm: found for arm, found in figures.items() if found is not None}
    seed = int(experiment["seed"])
    compared = [compare(finished, arm, against, seed) for arm, against in _pairs(list(arms))]
    comparisons = tuple(found for found in compared if found is not None)
    together = interaction(finished, seed)
    verdict = _verdict(folder)
    blocks_finished = len(paired_blocks(finished, planned))
    return Summary(
        format=FORMAT,
        experiment=str(experiment["name"]),
        run_id=str(manifest.get("run_id", "")),
        started=str(manifest.get("started", "")),
        folder=str(folder.path.resolve()),
        trustworthy=verdict.trustworthy,
        reasons=verdict.reasons,
        blocks_planned=int(experiment["blocks"]),
        blocks_finished=blocks_finished,
        arms=arms,
        comparisons=comparisons,
        interaction=together,
        conclusion=conclusion(list(arms), comparisons, verdict.trustworthy),
        interaction_sentence=interaction_sentence(together, verdict.trustworthy),
        labels=tuple(manifest.get("labels", ())),
        notes=(
            *manifest.get("notes", ()),
            *_unfinished_notes(runs, blocks_finished, int(experiment["blocks"])),
            *membership_notes(runs),
            *interval_notes(comparisons),
        ),
    )


def _figures(runs: Sequence[ArmRun], experiment: dict[str, Any]) -> ArmFigures | None:
    if not runs:
        return None
    return arm_figures(runs, ranks=len(experiment["dcs"]), size_bytes=int(experiment["size_bytes"]))


def _pairs(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Every arm against `static`, then `joint` against the other two."""
    against_static = [(arm, "static") for arm in arms if arm != "static" and "static" in arms]
    return against_static + [("joint", arm) for arm in arms if "joint" in arms and arm in ("wan", "ccl")]


def _verdict(folder: RunFolder) -> Verdict:
    """Of the gate and every finished arm together. A run whose gate left no verdict has not passed it."""
    gate = folder.read_json(GATE)
    missing = Verdict(False, ("the fidelity gate left no verdict",))
    arms = {
        f"block {line['block']}, {line['arm']}": verdict_from_json(line["verdict"])
        for line in folder.read_arms()
        if line.get("verdict")
    }
    return combine(verdict_from_json(gate) if gate else missing, arms)


def _unfinished_notes(runs: Sequence[ArmRun], blocks_finished: int, blocks_planned: int) -> list[str]:
    notes = [
        f"{run.arm} of block {run.block} is not finished (running or cut off): left out of every figure"
        for run in runs
        if not run.finished
    ]
    if blocks_finished < blocks_planned:
        notes.insert(0, f"{blocks_finished} of {blocks_planned} blocks are complete")
    return notes
