"""The ring agent of a process group whose script knows nothing of it: asked for by the environment.

`RINGROAD_AGENT` holds a job as `workers.job.job_to_json` writes it: its `ranks` are the DCs of the global ranks in
order, its `agent`, `initial_order`, `bandwidth_socket`, `seed`, `log_folder` and `records_socket` count as in a job of
ours, the rest does not: `ringroad exec` sets it. The first rank of a group tells every turn to the records socket, or
appends it to `ring_changes.jsonl` in the log folder where there is none; its orders are of `members`, which says the
global ranks of each place. A ring is what is chosen: planned schedules are for the workers of `ringroad run`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.distributed import ProcessGroupGloo

from topologies.errors import InputError
from workers.agent import Ring, RingAgent
from workers.backend.journal import Journal
from workers.job import Job, job_from_json
from workers.passive import Arrival
from workers.turns import agent_is_due

VARIABLE = "RINGROAD_AGENT"
CHANGES = "ring_changes.jsonl"


class AutomaticAgent:
    """Works before every N-th bulk collective of one group, on all ranks of it at the same point.

    It orders DCs: the ranks of one DC follow each other on the ring, in the order of their numbers, so that the ring
    enters and leaves each DC once.
    """

    def __init__(
        self, job: Job, data: ProcessGroupGloo, group_name: str, ranks: Sequence[int], journal: Journal | None
    ) -> None:
        self._members, self._journal = places(job), journal
        self._job = replace(job, ranks=tuple(job.ranks[members[0]] for members in self._members))
        self._group = {"group": group_name, "members": [[ranks[rank] for rank in m] for m in self._members]}
        self._is_first = data.rank() == 0
        # Only the engine's thread uses the data group: the agent's words are in order there, and in nobody's way.
        self._agent = RingAgent(self._job, data, data, self._members)

    def is_due(self, collective: int) -> bool:
        """Whether it works before that one."""
        return agent_is_due(self._job, collective)

    def before(self, collective: int, ring: Ring, sequence: Iterator[int]) -> Ring:
        """The ring that bulk collective number `collective` (from 0) runs on. Blocks while the agent works."""
        if not self.is_due(collective):
            return ring
        first_of_place = {members[0]: place for place, members in enumerate(self._members)}
        order = tuple(first_of_place[rank] for rank in ring.order if rank in first_of_place)
        self._agent.ring = Ring(ring.epoch, order)
        change = self._agent.turn(collective, next(sequence))
        if change is not None and self._is_first:
            self._record(change)
        if self._agent.ring.epoch == ring.epoch:
            return ring
        return Ring(self._agent.ring.epoch, tuple(rank for p in self._agent.ring.order for rank in self._members[p]))

    def after(self, arrivals: Sequence[Arrival]) -> None:
        """What this rank saw of a bulk collective."""
        if self._agent.observes:
            self._agent.observe(arrivals)

    def _record(self, change: dict[str, Any]) -> None:
        if self._journal is not None:
            self._journal.ring_change(change | self._group)
            return
        line = json.dumps(change | self._group) + "\n"
        with (Path(self._job.log_folder) / CHANGES).open("a") as file:
            file.write(line)


def places(job: Job) -> tuple[tuple[int, ...], ...]:
    """The ranks that the agent takes for one, those of a DC, in the order of their first."""
    by_dc: dict[str, list[int]] = {}
    for rank, dc in enumerate(job.dcs):
        by_dc.setdefault(dc, []).append(rank)
    return tuple(tuple(ranks) for ranks in by_dc.values())


def from_environment(
    data: ProcessGroupGloo, group_name: str, ranks: Sequence[int]
) -> tuple[AutomaticAgent | None, Journal | None]:
    """The agent and the journal that the environment asks for; None: not asked for, or the group has but one ring.

    `ranks` are the group's, as global ranks. InputError if the variable holds no job with that many ranks.
    """
    text = os.environ.get(VARIABLE)
    if not text or len(ranks) < 2:
        return None, None
    try:
        whole = job_from_json(json.loads(text))
        job = replace(whole, ranks=tuple(whole.ranks[rank] for rank in ranks))
    except (InputError, ValueError, TypeError, KeyError, IndexError) as error:
        remedy = (
            "ringroad exec sets it; to set it yourself, give a job as JSON, as workers.job.job_to_json makes it: "
            f"{type(error).__name__}: {error}"
        )
        raise InputError("holds no job for these ranks", place=VARIABLE, value=text[:200], remedy=remedy) from error
    journal = None
    if job.records_socket is not None:
        journal = Journal(Path(job.records_socket), group_name, ranks, data.rank())
    if len(places(job)) < 3 or not (job.agent.every or job.measures_first):
        return None, journal
    return AutomaticAgent(job, data, group_name, ranks, journal), journal
