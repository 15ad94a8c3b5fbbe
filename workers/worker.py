"""One rank in one world: its process groups, its tensors, its ring agent; runs a collective and verifies it.

A worker is made for a world and never outlives it: the next world has groups, tensors and an agent of its own, so that
nothing that is still on its way can reach them.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed import FileStore, PrefixStore, ProcessGroupGloo

from topologies.errors import RingroadError
from workers.agent import Ring, RingAgent
from workers.breaking import break_connections
from workers.collectives import all_gather, stock_all_gather
from workers.job import ELEMENT_BYTES, Job
from workers.passive import CHUNKS_TO_SEE, Arrival
from workers.registry import find
from workers.schedules import SCHEDULES
from workers.schedules.forest import plan_of
from workers.turns import implementation_of
from workers.verification import Pattern
from workers.world import World, in_world


class Left(RingroadError):
    """The world that this worker is of is over."""


class Worker:
    """`rank` is one of the job's. Joining blocks until every member has joined. RuntimeError when one cannot be had."""

    def __init__(self, job: Job, rank: int, world: World, store: Path) -> None:
        self._job, self._rank, self._world = world.job(job), rank, world
        self._place = world.members.index(rank)
        self._schedule = find(SCHEDULES, job.schedule, "schedule")
        self._left = threading.Event()
        shared = FileStore(os.fspath(store), len(world.members))
        self._data = self._join(PrefixStore("data", shared))
        self._control = self._join(PrefixStore("control", shared))
        self._agent = RingAgent(self._job, self._data, self._control)
        self._agent.ring = Ring(world.epoch, world.places)
        elements = job.size_bytes // ELEMENT_BYTES
        self._pattern = Pattern(elements)
        self._own = torch.empty(elements, dtype=torch.int32)
        self._output = torch.zeros((len(world.members), elements), dtype=torch.int32)
        self._sequence = itertools.count()

    def _join(self, store: PrefixStore) -> ProcessGroupGloo:
        timeout = timedelta(seconds=self._job.timeout_s)
        return ProcessGroupGloo(store, self._place, len(self._world.members), timeout)

    def leave(self) -> None:
        """From any thread: whatever it waits for ends with an error now, at the peers too. Takes some ms."""
        self._left.set()
        break_connections(self._data)
        break_connections(self._control)

    def turn(self, request: dict[str, Any], on_ring_change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """One collective, the agent's work before it included when that is due; its record once it is verified.

        `on_ring_change` is told of a decision before the first bytes flow. Ranks in records are those of the job.
        """
        collective, at = request["turn"], request["at"]
        self._pattern.fill(self._own, self._rank, collective)
        self._wait(self._job.compute_s)
        if at is not None:
            self._wait(at - time.monotonic())
        turn_start = time.monotonic()
        if request["order"] is not None:
            order = in_world(self._world, request["order"])
            self._agent.take(tuple(self._world.members.index(rank) for rank in order))
        if request["agent"]:
            change = self._agent.turn(collective, next(self._sequence))
            if change is not None:
                on_ring_change(self._named(change))
        start = time.monotonic()
        self._gather(implementation_of(self._job, collective))
        end = time.monotonic()
        if self._job.verify:
            self._pattern.check(self._output, collective, self._world.members)
        ring = self._agent.ring
        return {
            "collective": collective,
            "epoch": ring.epoch,
            "order": self._world.ranks(ring.order),
            "members": list(self._world.members),
            "schedule": ring.schedule or self._job.schedule,
            "implementation": implementation_of(self._job, collective),
            "turn_start": turn_start,
            "start": start,
            "end": end,
            "verified": self._job.verify,
        }

    def _wait(self, seconds: float) -> None:
        if seconds > 0 and self._left.wait(seconds):
            raise Left("left while it waited for the next collective")

    def _named(self, change: dict[str, Any]) -> dict[str, Any]:
        """A decision with its rings in ranks of the job; rows and columns of its bandwidths are those of `members`."""
        rings = {key: self._world.ranks(change[key]) for key in ("from", "to")}
        return change | rings | {"members": list(self._world.members)}

    def _gather(self, implementation: str) -> None:
        if implementation == "gloo":
            stock_all_gather(self._data, self._own, self._output)
            return
        ring = self._agent.ring
        elements = self._own.numel()
        chunk = max(1, self._job.chunk_bytes // ELEMENT_BYTES)
        if self._agent.observes:
            chunk = max(1, min(chunk, elements // CHUNKS_TO_SEE))
        if ring.forest is not None:
            plan = plan_of(ring.forest, self._place, elements, chunk)
        else:
            plan = self._schedule(ring.order, self._place, elements, chunk)
        arrivals: list[Arrival] | None = [] if self._agent.observes else None
        all_gather(self._data, plan, self._own, self._output, ring.epoch, next(self._sequence), arrivals)
        if arrivals is not None:
            self._agent.observe(arrivals)
