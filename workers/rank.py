"""What one rank does from its fork to its end: enter the DC, join the world it is told of, run a collective per turn.

It obeys the launcher over one socket. In: {"world", "store"} to leave everything and join that world; {"turn": i,
"at": s or null, "agent": is it due, "order": a ring or null}. Out, each with the generation of the world that it is
about: {"ready"}, {"ring_change"}, {"record"} or {"failed"}. The launcher kills it when the job is over.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

from topologies import wire
from topologies.errors import RingroadError
from workers import isolation
from workers.blame import Kind
from workers.job import Job, rank_name
from workers.worker import Worker
from workers.world import World, world_from_json

if TYPE_CHECKING:
    from workers.perf import PerfWorker

_log = logging.getLogger("rank")

Message = dict[str, Any]


def run(job: Job, rank: int, launcher: socket, launcher_pid: int) -> int:
    """The whole life of a rank, in the freshly forked process. Returns the exit status; never raises."""
    told = _Told(launcher)
    try:
        isolation.die_with_parent(launcher_pid)
        _log_to(job.log_path(rank))
        _log.info("%s, process %d", rank_name(job, rank), os.getpid())
        namespace = job.ranks[rank].netns_pid
        if namespace is not None:
            isolation.enter_network_of(namespace)
        os.environ["GLOO_SOCKET_IFNAME"] = job.interface
        _obey(job, rank, launcher, told)
        return 0
    except BaseException as error:
        _log.exception("cannot go on")
        told.send(None, _failed(error))
        return 1


def _obey(job: Job, rank: int, launcher: socket, told: _Told) -> None:
    """Until the launcher is gone. This thread only listens: it can always end what another one waits for."""
    stint: _Stint | None = None
    for request in wire.messages(launcher):
        if "world" in request:
            if stint is not None:
                stint.leave()
            stint = _Stint(job, rank, world_from_json(request["world"]), Path(request["store"]), told)
        elif stint is not None:
            stint.turns.put(request)


class _Stint:
    """This rank in one world: a thread that joins it and runs turn after turn, until it fails or is told to leave."""

    def __init__(self, job: Job, rank: int, world: World, store: Path, told: _Told) -> None:
        self.turns: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._generation, self._told = world.generation, told
        self._worker: Worker | PerfWorker | None = None
        self._is_over = False
        join = (job, rank, world, store)
        threading.Thread(target=self._run, args=join, name=f"world {world.generation}", daemon=True).start()

    def leave(self) -> None:
        """What comes from it later is not told. One that is still joining is left to its own timeout."""
        self._is_over = True
        self.turns.put(None)
        if isinstance(self._worker, Worker):  # a job of perf never has a second world
            self._worker.leave()

    def _run(self, job: Job, rank: int, world: World, store: Path) -> None:
        try:
            worker = self._worker = _worker(job, rank, world, store)
            members = list(world.members)
            _log.info("joined %d ranks over %s: %s, world %d", len(members), job.interface, members, world.generation)
            self._say({"ready": time.monotonic()})
            while (request := self.turns.get()) is not None:
                self._say({"record": worker.turn(request, lambda change: self._say({"ring_change": change}))})
        except BaseException as error:
            if self._is_over:
                _log.info("world %d is over: %s", world.generation, error)
                return
            _log.exception("cannot go on in world %d", world.generation)
            self._say(_failed(error))

    def _say(self, message: Message) -> None:
        if not self._is_over:
            self._told.send(self._generation, message)


def _worker(job: Job, rank: int, world: World, store: Path) -> Worker | PerfWorker:
    if job.perf is None:
        return Worker(job, rank, world, store)
    from workers.perf import PerfWorker

    return PerfWorker(job, rank, store)


class _Told:
    """The launcher's ear: threads of several worlds may speak, one message at a time."""

    def __init__(self, launcher: socket) -> None:
        self._launcher = launcher
        self._lock = threading.Lock()

    def send(self, generation: int | None, message: Message) -> None:
        """A launcher that is gone is no trouble: this rank ends with it."""
        with self._lock:
            try:
                wire.send(self._launcher, message | {"generation": generation})
            except wire.WireError:
                _log.exception("the launcher is gone")


def _failed(error: BaseException) -> Message:
    is_gloo = isinstance(error, RuntimeError)
    message = error.message if isinstance(error, RingroadError) else f"{type(error).__name__}: {error}"
    lines = message.strip().splitlines() or ["?"]
    return {"failed": {"kind": int(Kind.CONNECTION if is_gloo else Kind.FAILED), "message": lines[0][:500]}}


def _log_to(path: Path) -> None:
    """Everything this process writes goes to `path`, that of the libraries too."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for target, source in ((0, nothing), (1, descriptor), (2, descriptor)):
        os.dup2(source, target)
    os.close(descriptor)
    os.close(nothing)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)8d ms %(name)s: %(message)s")
