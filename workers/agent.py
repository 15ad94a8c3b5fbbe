"""The ring agent: measures, lets a policy decide, and makes all ranks change the order before the same collective.

Rank 0 decides and broadcasts (epoch, order) on a control group of its own, so that a decision never meets data. The
time of all of it is charged: the collective starts when the agent is done.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed import ProcessGroupGloo

from topologies.errors import RingroadError
from workers.bandwidth import Known, probe, told
from workers.decision import Decision, Ring, decide
from workers.job import ELEMENT_BYTES, Job
from workers.network import Order
from workers.passive import Arrival, Passive, newest, seen
from workers.policies import NEED_LINKS, RingView, linkrings, needs_links, policy
from workers.policies.view import from_first
from workers.schedules.forest import forest_from_json, forest_to_json

__all__ = ["Disagreement", "Ring", "RingAgent"]

_LEADER = 0


class Disagreement(RingroadError):
    """A decision that cannot be true: ranks would run different rings."""


class RingAgent:
    """One per rank; all ranks call `turn` before the same collective. `data` carries probes, `control` words.

    Where several ranks of a group stand for one rank of the job, `members` lists the group's ranks for each: rings are
    of the job's ranks, and only the first of each sends probes.
    """

    def __init__(
        self,
        job: Job,
        data: ProcessGroupGloo,
        control: ProcessGroupGloo,
        members: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self._job, self._data, self._control = job, data, control
        self._members = members or [[rank] for rank in range(len(job.ranks))]
        self._policy = policy(job.agent.policy)
        if job.agent.policy in NEED_LINKS and job.agent.source in ("probe", "passive"):
            raise needs_links(job.agent.policy)
        if control.rank() == _LEADER and job.agent.policy in NEED_LINKS:
            linkrings.prepare(len(job.ranks))
        self._listed = tuple(range(len(job.ranks)))
        self._turns = 0
        self._passive = Passive(job.agent.half_life_s)
        self.ring = Ring(0, job.start_order or self._listed)

    def observe(self, arrivals: Sequence[Arrival]) -> None:
        """What this rank saw of a collective: when each chunk came. Only the source `passive` makes use of it."""
        self._passive.observe(seen(arrivals, ELEMENT_BYTES))

    @property
    def observes(self) -> bool:
        """Whether `observe` is of use."""
        return self._job.agent.source == "passive"

    def take(self, order: Order) -> None:
        """Go on from an order that somebody else has chosen; every rank is told the same before the same collective."""
        if self.ring.forest is not None or order != self.ring.order:
            self.ring = Ring(self.ring.epoch + 1, order)

    def turn(self, collective: int, sequence: int) -> dict[str, Any] | None:
        """Measure, decide, agree. Blocks until this rank knows the ring; the leader returns the record of the change.

        RuntimeError when a peer is gone, WireError when the runner does not answer, Disagreement never in order.
        """
        started = time.monotonic()
        known = self._measured(sequence)
        measured = time.monotonic()
        old = self.ring
        decision = self._decided(known) if known is not None else Decision(old)
        decided = time.monotonic()
        self.ring = self._agreed(decision.ring)
        ended = time.monotonic()
        self._turns += 1
        if known is None:
            return None
        return {
            "event": "ring_change",
            "before_collective": collective,
            "epoch": self.ring.epoch,
            "from": list(old.order),
            "to": list(self.ring.order),
            "changed": self.ring.epoch != old.epoch,
            "source": self._job.agent.source,
            "policy": self._job.agent.policy,
            "schedule": self.ring.schedule or self._job.schedule,
            "bandwidths": [list(row) for row in known.bandwidths],
            "ages_s": None
            if known.ages_s is None
            else [[age if math.isfinite(age) else None for age in row] for row in known.ages_s],
            "predicted_gain": decision.predicted_gain,
            "rate_before_bps": decision.rate_before_bps,
            "rate_bps": decision.rate_bps,
            "started_at": started,
            "ended_at": ended,
            "probe_s": measured - started,
            "decide_s": decided - measured,
            "agree_s": ended - decided,
        }

    def _measured(self, sequence: int) -> Known | None:
        """What is known at the leader, None elsewhere."""
        is_leader = self._control.rank() == _LEADER
        source = self._job.agent.source
        if source in ("feed", "oracle"):
            path = Path(self._job.bandwidth_socket or "")
            return told(source, self._job.dcs, path) if is_leader else None
        if source == "passive":
            rows = self._gathered(self._passive.row(self._control.size()))
            if not is_leader:
                return None
            columns = newest(rows, self._members)
            bandwidths, ages_s = self._passive.known(columns, time.monotonic())
            return Known(bandwidths, ages_s=ages_s)
        firsts = [members[0] for members in self._members]
        columns = self._gathered(probe(self._data, self._job.agent.probe, self.ring.epoch, sequence, firsts))
        if not is_leader:
            return None
        return Known(tuple(zip(*(columns[first] for first in firsts), strict=True)))

    def _gathered(self, row: Sequence[float]) -> list[list[float]]:
        """Every rank's row at the leader, nothing elsewhere."""
        mine = torch.tensor(row, dtype=torch.float64)
        is_leader = self._control.rank() == _LEADER
        rows = [torch.empty_like(mine) for _ in range(self._control.size())] if is_leader else []
        self._control.gather(rows, mine, _LEADER).wait()
        return [each.tolist() for each in rows]

    def _decided(self, known: Known) -> Decision:
        job = self._job
        view = RingView(
            known.bandwidths,
            self.ring.order,
            self._listed,
            job.agent.margin,
            job.seed,
            self._turns,
            network=known.network,
            ages_s=known.ages_s,
            size_bytes=job.size_bytes,
            collectives=job.agent.every or job.collectives,
            change_cost_s=job.agent.change_cost_s,
        )
        order = tuple(self._policy(view))
        if sorted(order) != list(self._listed):
            raise Disagreement(f"ring policy {job.agent.policy!r} returned {order}, not every rank once")
        return decide(self.ring, from_first(order), view, job.schedule, job.chunk_bytes)

    def _agreed(self, mine: Ring) -> Ring:
        """What the leader decided, on every rank."""
        is_leader = self._control.rank() == _LEADER
        plan = b""
        if is_leader and mine.forest is not None and mine.epoch != self.ring.epoch:
            plan = json.dumps([mine.schedule, forest_to_json(mine.forest)]).encode()
        words = torch.tensor([mine.epoch, len(plan), *mine.order], dtype=torch.int64)
        self._control.broadcast(words, _LEADER).wait()
        epoch, length, *order = words.tolist()
        same = epoch == self.ring.epoch and tuple(order) == self.ring.order
        if not same and (epoch != self.ring.epoch + 1 or sorted(order) != list(self._listed)):
            raise Disagreement(f"epoch {epoch} with order {order} cannot follow {self.ring}")
        if same:
            return self.ring
        if not length:
            return Ring(epoch, tuple(order))
        data = (
            torch.frombuffer(bytearray(plan), dtype=torch.uint8)
            if is_leader
            else torch.empty(length, dtype=torch.uint8)
        )
        self._control.broadcast(data, _LEADER).wait()
        schedule, forest = json.loads(bytes(data.tolist()))
        return Ring(epoch, tuple(order), forest_from_json(forest), schedule)
