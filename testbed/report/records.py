"""What was measured in each arm of each block, read from a run folder into frozen values.

The one place of the report that knows the names in the JSON lines. An arm counts as finished when the runner said so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.runfolder import RunFolder

Record = dict[str, Any]

ROUTINE_CAUSES = frozenset({"reset", "pin"})
"""Why routes move between arms and in the fidelity gate: not the work of the WAN controller's loop."""


@dataclass(frozen=True)
class Collective:
    """One collective. Times in s on CLOCK_MONOTONIC; `agent_s` is what the ring agent took just before it."""

    index: int
    start: float
    end: float
    agent_s: float
    limit_s: float | None

    @property
    def duration_s(self) -> float:
        """First rank's start to last rank's end."""
        return self.end - self.start

    @property
    def charged_s(self) -> float:
        """The collective and the ring agent's time before it."""
        return self.duration_s + self.agent_s


@dataclass(frozen=True)
class Membership:
    """A change of who takes part: (DC, why) of who left, DCs that came, what broke where nobody left.

    `at` is when it began, s on CLOCK_MONOTONIC; the next collective could begin `pause_s` later.
    """

    at: float
    left: tuple[tuple[str, str], ...]
    joined: tuple[str, ...]
    broken: str | None
    pause_s: float


@dataclass(frozen=True)
class ArmRun:
    """One arm of one block. `started_at` is second 0 of the trace on CLOCK_MONOTONIC."""

    block: int
    arm: str
    finished: bool
    started_at: float
    collectives: tuple[Collective, ...]
    ring_changed_at: tuple[float, ...]
    ring_changes_considered: int
    reconfigured_at: tuple[float, ...]
    moves: int
    reaction_s: tuple[float, ...]
    memberships: tuple[Membership, ...] = ()


def read_runs(folder: RunFolder) -> list[ArmRun]:
    """Every arm that began, by block, in the order in which arms ran; unfinished ones last in their block."""
    finished = {(int(line["block"]), str(line["arm"])): line for line in folder.read_arms()}
    begun = [key for key in folder.arms_begun() if key not in finished]
    runs = [_read_run(folder, block, arm, finished.get((block, arm))) for block, arm in (*finished, *begun)]
    return sorted(runs, key=lambda run: run.block)


def _read_run(folder: RunFolder, block: int, arm: str, line: Record | None) -> ArmRun:
    ring_changes = folder.read(block, arm, "ring_changes")
    collectives = _collectives(folder.read(block, arm, "collectives"), ring_changes)
    reconfigurations = [
        event
        for event in folder.read(block, arm, "reconfigurations")
        if event.get("moves") and event.get("cause") not in ROUTINE_CAUSES
    ]
    changed = [event for event in ring_changes if event.get("changed")]
    return ArmRun(
        block=block,
        arm=arm,
        finished=line is not None,
        started_at=_started_at(folder, block, arm, line, collectives),
        collectives=collectives,
        ring_changed_at=tuple(float(event["ended_at"]) for event in changed),
        ring_changes_considered=len(ring_changes),
        reconfigured_at=tuple(float(event["decided_at"]) for event in reconfigurations),
        moves=sum(len(event["moves"]) for event in reconfigurations),
        reaction_s=tuple(
            event["installed_at"] - event["happened_at"]
            for event in reconfigurations
            if event["cause"] != "period" and event["installed_at"] is not None
        ),
        memberships=tuple(_membership(event) for event in folder.read(block, arm, "memberships")),
    )


def _membership(event: Record) -> Membership:
    return Membership(
        at=float(event["at"]),
        left=tuple((gone["dc"], gone["why"]) for gone in event["left"]),
        joined=tuple(come["dc"] for come in event["joined"]),
        broken=event["broken"],
        pause_s=float(event["pause_s"]),
    )


def _collectives(records: Sequence[Record], ring_changes: Sequence[Record]) -> tuple[Collective, ...]:
    """What the ring agent did in a collective that had to begin again is part of that collective's time already."""
    starts = {record["index"]: record["start"] for record in records}
    agent_s: dict[int, float] = defaultdict(float)
    for event in ring_changes:
        index = event["before_collective"]
        if event["started_at"] <= starts.get(index, event["started_at"]):
            agent_s[index] += event["ended_at"] - event["started_at"]
    return tuple(
        Collective(
            index=record["index"],
            start=record["start"],
            end=record["end"],
            agent_s=agent_s[record["index"]],
            limit_s=record.get("limit_s"),
        )
        for record in records
        if not record.get("warmup")
    )


def _started_at(
    folder: RunFolder, block: int, arm: str, line: Record | None, collectives: Sequence[Collective]
) -> float:
    """As the runner says; of an arm that was cut off, from the first change played, or the first collective."""
    if line is not None:
        return float(line["started_at"])
    for change in folder.read(block, arm, "changes"):
        if change["planned_s"] > 0:
            return float(change["begun_at"] - change["planned_s"])
    return collectives[0].start if collectives else 0.0
