"""What a report says about DCs that left and came back, and connections that were made anew. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from testbed.report.records import ArmRun, Membership


def membership_notes(runs: Sequence[ArmRun]) -> list[str]:
    """One sentence for each cause, over all arms; none where nothing of the kind happened."""
    changes = [(run, change) for run in runs for change in run.memberships]
    if not changes:
        return []
    left = sorted({departure for _, change in changes for departure in change.left})
    notes = []
    for dc, why in left:
        which = [(run, change) for run, change in changes if (dc, why) in change.left]
        notes.append(f"{dc} left, its worker {why}: {_how_often(which)}; {_pauses(change for _, change in which)}")
    for dc in sorted({dc for _, change in changes for dc in change.joined}):
        which = [(run, change) for run, change in changes if dc in change.joined]
        notes.append(f"{dc} came back: {_how_often(which)}; {_pauses(change for _, change in which)}")
    broken = [(run, change) for run, change in changes if change.broken]
    if broken:
        first = broken[0][1].broken
        notes.append(f"connections were made anew: {_how_often(broken)}; the first time: {first}")
    if left:
        notes.append("busbw counts all DCs throughout, the limit only those that took part")
    return notes


def _how_often(which: Sequence[tuple[ArmRun, Membership]]) -> str:
    arms = list(dict.fromkeys(run.arm for run, _ in which))
    return f"{len(which)} {'time' if len(which) == 1 else 'times'}, in {', '.join(arms)}"


def _pauses(changes: Iterable[Membership]) -> str:
    pauses = sorted(change.pause_s for change in changes)
    if len(pauses) == 1:
        return f"the next collective could begin {pauses[0]:.2f} s later"
    return f"the next collective could begin {median(pauses):.2f} s later in the median, {pauses[-1]:.2f} s at most"
