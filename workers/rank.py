"""What one rank does from its fork to its end: enter the DC, join the groups, run one collective per turn it is given.

It obeys the launcher over one socket: {"turn": i, "at": s or null, "agent": is it due, "order": a ring or null} in;
{"ready"}, {"ring_change"}, {"record"} or {"failed"} out, a ring change at once, so that whoever listens knows it before
the first bytes flow. The launcher kills it when the job is over.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import FileStore, PrefixStore, ProcessGroupGloo

from topologies import wire
from topologies.errors import RingroadError
from workers import isolation
from workers.agent import RingAgent
from workers.blame import Kind
from workers.collectives import all_gather, stock_all_gather
from workers.job import ELEMENT_BYTES, Job, rank_name
from workers.passive import CHUNKS_TO_SEE, Arrival
from workers.registry import find
from workers.schedules import SCHEDULES
from workers.schedules.forest import plan_of
from workers.turns import implementation_of
from workers.verification import Pattern

if TYPE_CHECKING:
    from workers.perf import PerfWorker

_log = logging.getLogger("rank")


def run(job: Job, rank: int, launcher: socket, launcher_pid: int, store: Path) -> int:
    """The whole life of a rank, in the freshly forked process. Returns the exit status; never raises."""
    try:
        isolation.die_with_parent(launcher_pid)
        _log_to(job.log_path(rank))
        _log.info("%s, process %d", rank_name(job, rank), os.getpid())
        worker = _worker(job, rank, store)
        wire.send(launcher, {"ready": time.monotonic()})
        for request in wire.messages(launcher):
            wire.send(launcher, {"record": worker.turn(request, launcher)})
        return 0
    except BaseException as error:
        _log.exception("cannot go on")
        return _report(launcher, error)


def _worker(job: Job, rank: int, store: Path) -> _Worker | PerfWorker:
    if job.perf is None:
        return _Worker(job, rank, store)
    from workers.perf import PerfWorker

    return PerfWorker(job, rank, store)


def _report(launcher: socket, error: BaseException) -> int:
    is_gloo = isinstance(error, RuntimeError)
    message = error.message if isinstance(error, RingroadError) else f"{type(error).__name__}: {error}"
    lines = message.strip().splitlines() or ["?"]
    failed = {"kind": int(Kind.CONNECTION if is_gloo else Kind.FAILED), "message": lines[0][:500]}
    try:
        wire.send(launcher, {"failed": failed})
    except wire.WireError:
        _log.exception("the launcher is gone")
    return 1


def _log_to(path: Path) -> None:
    """Everything this process writes goes to `path`, that of the libraries too."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for target, source in ((0, nothing), (1, descriptor), (2, descriptor)):
        os.dup2(source, target)
    os.close(descriptor)
    os.close(nothing)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)8d ms %(name)s: %(message)s")


class _Worker:
    """The rank's groups, tensors and agent. Joining blocks until every rank has joined."""

    def __init__(self, job: Job, rank: int, store: Path) -> None:
        self._job, self._rank = job, rank
        self._schedule = find(SCHEDULES, job.schedule, "schedule")
        namespace = job.ranks[rank].netns_pid
        if namespace is not None:
            isolation.enter_network_of(namespace)
        os.environ["GLOO_SOCKET_IFNAME"] = job.interface
        shared = FileStore(os.fspath(store), len(job.ranks))
        self._data = self._join(PrefixStore("data", shared))
        self._agent = RingAgent(job, self._data, self._join(PrefixStore("control", shared)))
        _log.info("joined %d ranks over %s", len(job.ranks), job.interface)
        elements = job.size_bytes // ELEMENT_BYTES
        self._pattern = Pattern(elements)
        self._own = torch.empty(elements, dtype=torch.int32)
        self._output = torch.zeros((len(job.ranks), elements), dtype=torch.int32)
        self._sequence = itertools.count()

    def _join(self, store: PrefixStore) -> ProcessGroupGloo:
        timeout = timedelta(seconds=self._job.timeout_s)
        return ProcessGroupGloo(store, self._rank, len(self._job.ranks), timeout)

    def turn(self, request: dict[str, Any], launcher: socket) -> dict[str, Any]:
        """One collective, the agent's work before it included when that is due; its record once it is verified."""
        collective, at = request["turn"], request["at"]
        self._pattern.fill(self._own, self._rank, collective)
        if self._job.compute_s:
            time.sleep(self._job.compute_s)
        if at is not None:
            time.sleep(max(0.0, at - time.monotonic()))
        turn_start = time.monotonic()
        if request["order"] is not None:
            self._agent.take(tuple(request["order"]))
        if request["agent"]:
            change = self._agent.turn(collective, next(self._sequence))
            if change is not None:
                wire.send(launcher, {"ring_change": change})
        start = time.monotonic()
        self._gather(implementation_of(self._job, collective))
        end = time.monotonic()
        if self._job.verify:
            self._pattern.check(self._output, collective)
        ring = self._agent.ring
        return {
            "collective": collective,
            "epoch": ring.epoch,
            "order": list(ring.order),
            "schedule": ring.schedule or self._job.schedule,
            "implementation": implementation_of(self._job, collective),
            "turn_start": turn_start,
            "start": start,
            "end": end,
            "verified": self._job.verify,
        }

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
            plan = plan_of(ring.forest, self._rank, elements, chunk)
        else:
            plan = self._schedule(ring.order, self._rank, elements, chunk)
        arrivals: list[Arrival] | None = [] if self._agent.observes else None
        all_gather(self._data, plan, self._own, self._output, ring.epoch, next(self._sequence), arrivals)
        if arrivals is not None:
            self._agent.observe(arrivals)
