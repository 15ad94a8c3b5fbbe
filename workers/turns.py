"""The course of a run, as pure values: which collective is next and when, and what its record says.

Between two collectives all ranks wait for the launcher, outside the WAN: the start is common, verification of one
never slows the next, and all ranks end at the same collective. Knows no clock and no process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workers import perfjob
from workers.job import Every, Job


def scheduled_start(job: Job, collective: int, run_start: float) -> float | None:
    """When `collective` should start at the earliest, in CLOCK_MONOTONIC seconds; None: as soon as it can."""
    if isinstance(job.pacing, Every):
        return run_start + collective * job.pacing.every_s
    return run_start if collective == 0 else None


def is_over(job: Job, collective: int, run_start: float, now: float) -> bool:
    """Whether the run ends before `collective`: all are done, or it would start after the run's duration."""
    if collective >= job.collectives:
        return True
    if job.duration_s is None:
        return False
    start = max(now, scheduled_start(job, collective, run_start) or now)
    return start >= run_start + job.duration_s


def agent_is_due(job: Job, collective: int, every: int | None = None) -> bool:
    """Whether the ring agent works before `collective` (0-based; warm-up collectives are negative).

    Its N is `every`, where somebody has changed it since the job began.
    """
    if collective == 0:
        return job.measures_first
    every = job.agent.every if every is None else every
    return collective > 0 and every > 0 and collective % every == 0


def implementation_of(job: Job, collective: int) -> str:
    """Implementations take turns."""
    return job.implementations[collective % len(job.implementations)]


def collective_record(
    job: Job, scheduled: float | None, by_rank: Sequence[dict[str, Any]], interrupted: Sequence[float] = ()
) -> dict[str, Any]:
    """One record out of what every rank reports: from the first start to the last end, as nccl-tests' maximum.

    `turn_start` is when the turn began: up to `start` the ring agent was at work, so `end` − `turn_start` is the time
    with the agent charged. `interrupted` are the starts of attempts that came to nothing because ranks were lost: the
    collective then lasts from the first of them, all that was lost included. A round of `perf` is `perfjob.record`'s.
    """
    if job.perf is not None:
        return perfjob.record(job.perf, by_rank)
    first = by_rank[0]
    start, end = min(r["start"] for r in by_rank), max(r["end"] for r in by_rank)
    turn_start = min(r["turn_start"] for r in by_rank)
    if interrupted:
        turn_start = start = min(interrupted)
    return {
        "event": "collective",
        "index": first["collective"],
        "epoch": first["epoch"],
        "order": first["order"],
        "members": first["members"],
        "attempts": len(interrupted) + 1,
        "schedule": first["schedule"],
        "implementation": first["implementation"],
        "size_bytes": job.size_bytes,
        "scheduled_start": scheduled,
        "turn_start": turn_start,
        "start": start,
        "end": end,
        "time_s": end - start,
        "agent_s": start - turn_start,
        "rank_start": [r["start"] for r in by_rank],
        "rank_end": [r["end"] for r in by_rank],
        "verified": all(r["verified"] for r in by_rank),
    }
