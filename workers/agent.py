"""The ring agent: measures, lets a policy decide, and makes all ranks change the order before the same collective.

Rank 0 decides and broadcasts (epoch, order) on a control group of its own, so that a decision never meets data. The
time of all of it is charged: the collective starts when the agent is done.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed import ProcessGroupGloo

from topologies.errors import RingroadError
from workers.bandwidth import probe, told
from workers.job import Job
from workers.policies import POLICIES, RingView
from workers.policies.view import Matrix, Order, bottleneck_bps, from_first
from workers.registry import find

_LEADER = 0


class Disagreement(RingroadError):
    """A decision that cannot be true: ranks would run different rings."""


@dataclass(frozen=True)
class Ring:
    """The order all ranks run, and how often it has changed."""

    epoch: int
    order: Order


class RingAgent:
    """One per rank; all ranks call `turn` before the same collective. `data` carries probes, `control` words."""

    def __init__(self, job: Job, data: ProcessGroupGloo, control: ProcessGroupGloo) -> None:
        self._job, self._data, self._control = job, data, control
        self._policy = find(POLICIES, job.agent.policy, "ring policy")
        self._listed = tuple(range(len(job.ranks)))
        self._turns = 0
        self.ring = Ring(0, job.start_order or self._listed)

    def turn(self, collective: int, sequence: int) -> dict[str, Any] | None:
        """Measure, decide, agree. Blocks until this rank knows the ring; the leader returns the record of the change.

        RuntimeError when a peer is gone, WireError when the runner does not answer, Disagreement never in order.
        """
        started = time.monotonic()
        bandwidths = self._measured(sequence)
        measured = time.monotonic()
        old = self.ring
        new = self._decided(bandwidths) if bandwidths is not None else old
        decided = time.monotonic()
        self.ring = self._agreed(new)
        ended = time.monotonic()
        self._turns += 1
        if bandwidths is None:
            return None
        now_bps, new_bps = (bottleneck_bps(bandwidths, ring.order) for ring in (old, self.ring))
        return {
            "event": "ring_change",
            "before_collective": collective,
            "epoch": self.ring.epoch,
            "from": list(old.order),
            "to": list(self.ring.order),
            "changed": self.ring.epoch != old.epoch,
            "source": self._job.agent.source,
            "policy": self._job.agent.policy,
            "bandwidths": [list(row) for row in bandwidths],
            "predicted_gain": new_bps / now_bps - 1 if now_bps > 0 else None,
            "started_at": started,
            "ended_at": ended,
            "probe_s": measured - started,
            "decide_s": decided - measured,
            "agree_s": ended - decided,
        }

    def _measured(self, sequence: int) -> Matrix | None:
        """The matrix at the leader, None elsewhere."""
        rank, n = self._control.rank(), self._control.size()
        if self._job.agent.source != "probe":
            path = Path(self._job.bandwidth_socket or "")
            return told(self._job.agent.source, self._job.dcs, path) if rank == _LEADER else None
        column = torch.tensor(probe(self._data, self._job.agent.probe, self.ring.epoch, sequence), dtype=torch.float64)
        columns = [torch.empty_like(column) for _ in range(n)] if rank == _LEADER else []
        self._control.gather(columns, column, _LEADER).wait()
        return tuple(zip(*(c.tolist() for c in columns), strict=True)) if rank == _LEADER else None

    def _decided(self, bandwidths: Matrix) -> Ring:
        view = RingView(bandwidths, self.ring.order, self._listed, self._job.agent.margin, self._job.seed, self._turns)
        order = tuple(self._policy(view))
        if sorted(order) != list(self._listed):
            raise Disagreement(f"ring policy {self._job.agent.policy!r} returned {order}, not every rank once")
        order = from_first(order)
        changed = order != from_first(self.ring.order)
        return Ring(self.ring.epoch + 1, order) if changed else self.ring

    def _agreed(self, mine: Ring) -> Ring:
        """What the leader decided, on every rank."""
        words = torch.tensor([mine.epoch, *mine.order], dtype=torch.int64)
        self._control.broadcast(words, _LEADER).wait()
        epoch, *order = words.tolist()
        same = epoch == self.ring.epoch and tuple(order) == self.ring.order
        if not same and (epoch != self.ring.epoch + 1 or sorted(order) != list(self._listed)):
            raise Disagreement(f"epoch {epoch} with order {order} cannot follow {self.ring}")
        return Ring(epoch, tuple(order))
