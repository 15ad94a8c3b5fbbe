"""What has happened between two worlds of a job: who was lost and why, who came, and how long all of them stood still.

Keeps what the record of a membership change says. Pure: times are arguments (CLOCK_MONOTONIC seconds).
"""

from __future__ import annotations

from typing import Any

from workers.job import Job
from workers.world import World


class Changes:
    """Since the last world that was joined by all its members."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._left: list[dict[str, Any]] = []
        self._fresh: dict[int, float] = {}
        self._broken: str | None = None
        self._since: float | None = None
        self.interrupted = False
        """Whether a collective was under way when it began."""

    def lost(self, rank: int, why: str, now: float) -> None:
        """That rank's process has ended. One that had not joined yet leaves no trace."""
        if self._fresh.pop(rank, None) is None:
            self._left.append({"rank": rank, "dc": self._job.ranks[rank].dc, "why": why, "at": now})

    def came(self, rank: int, now: float) -> None:
        """That rank has been started anew and waits for the next world."""
        self._fresh[rank] = now

    def broke(self, message: str) -> None:
        """Nobody died; connections did, as after a timeout of gloo."""
        self._broken = message

    def forming(self, now: float, *, interrupts: bool) -> None:
        """A new world begins to form; maybe again, because the last one lost a rank before all had joined."""
        self._since = now if self._since is None else self._since
        self.interrupted |= interrupts

    def settled(self, world: World, collective: int, now: float) -> dict[str, Any]:
        """The record of what led to `world`, which all its members have joined; begins anew.

        `pause_s` is from the first loss, or from the end of the collective before, until the next could begin.
        """
        since = now if self._since is None else self._since
        joined = [rank for rank in world.members if rank in self._fresh]
        record = {
            "event": "membership",
            "generation": world.generation,
            "before_collective": collective,
            "interrupted": self.interrupted,
            "left": self._left,
            "joined": [{"rank": r, "dc": self._job.ranks[r].dc, "at": self._fresh.pop(r)} for r in joined],
            "broken": self._broken,
            "members": list(world.members),
            "dcs": [self._job.ranks[rank].dc for rank in world.members],
            "order": list(world.order),
            "epoch": world.epoch,
            "at": since,
            "formed_at": now,
            "pause_s": now - since,
        }
        self._left, self._broken, self._since, self.interrupted = [], None, None, False
        return record
