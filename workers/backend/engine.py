"""The thread of one process group that runs its bulk collectives one after the other, and owns its ring order.

Every rank gives it the same collectives in the same order; so whatever it does between two of them, a ring change too,
happens at the same point on all ranks. Nothing but this thread uses the data group.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch.distributed import ProcessGroupGloo

from workers.agent import Disagreement, Ring
from workers.backend.automatic import AutomaticAgent
from workers.backend.deathwatch import RankDied
from workers.backend.journal import Journal
from workers.backend.lane import Lane
from workers.backend.mode import in_mode_of_caller
from workers.backend.waiting import Waiting
from workers.backend.work import FOREVER, Explain, RingWork, as_it_is
from workers.breaking import break_connections
from workers.passive import Arrival

END_S = 2.0
"""How long threads that have nothing left to do, and callbacks of the script, are waited for at the end."""

Task = Callable[[], object]
Collective = Callable[[Lane], Iterator[None]]


class Engine:
    """One per group and rank. `agent` works before the bulk collectives that are its turn; None: never.

    `journal` is told of each bulk collective once it has ended well.
    """

    def __init__(
        self, data: ProcessGroupGloo, agent: AutomaticAgent | None = None, journal: Journal | None = None
    ) -> None:
        self._data, self._agent, self._journal = data, agent, journal
        self._sequence = itertools.count()
        self._collectives = 0
        """Bulk collectives that have had their turn."""
        self._broken: BaseException | None = None
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: RingWork | None = None
        self.ring = Ring(0, tuple(range(data.size())))
        self.explain: Explain = as_it_is
        """Of an error that ends everything here, what to raise instead."""
        self.waiting = Waiting()

    def collective(self, collective: Collective, result: Any, kind: str, size_bytes: int) -> RingWork:
        """Queue a bulk collective; it gets a lane in the order that holds when its turn comes. Returns at once.

        It yields once it has begun, and does not block before. If its turn is now, it begins in the calling thread:
        where many ranks share few processors, the thread may come to its turn some milliseconds later.
        `kind` and `size_bytes` are for the journal, see there.
        """
        run = self._run(collective, kind, size_bytes)
        try:
            if self.is_idle and self._broken is None and not (self._agent and self._agent.is_due(self._collectives)):
                next(run)
            return self.work(partial(deque, run, maxlen=0), result)
        except BaseException as error:  # it may have begun: the ranks are no longer at the same point
            failed = self.work(partial(deque, _raise(error), maxlen=0), result)
            if isinstance(error, Exception):
                return failed
            raise  # an interrupt is the script's

    def _run(self, collective: Collective, kind: str, size_bytes: int) -> Iterator[None]:
        agent, index, turn_start = self._agent, self._collectives, time.monotonic()
        self._collectives += 1
        arrivals: list[Arrival] | None = None
        if agent is not None:
            self.ring, arrivals = agent.before(index, self.ring, self._sequence), []
        start = time.monotonic()
        yield from collective(Lane(self._data, self.ring, next(self._sequence), arrivals))
        end = time.monotonic()
        if agent is not None and arrivals is not None:
            agent.after(arrivals)
        if self._journal is not None:
            self._journal.collective(kind, size_bytes, index, self.ring, turn_start, start, end)

    def set_order(self, order: Sequence[int]) -> RingWork:
        """Queue a ring change: holds for the bulk collectives after it. Disagreement on all ranks if they differ."""
        return self.work(lambda: self._change(tuple(order)), [])

    def work(self, task: Task, result: Any) -> RingWork:
        """Queue what has to wait for everything before it, and breaks everything after it when it fails."""
        work, task = RingWork(result), in_mode_of_caller(task)
        self.waiting.add(work)
        self._last = work
        self.background(lambda: work.complete(self._attempt(task)))
        return work

    def in_turn(self, work: RingWork, task: Task) -> None:
        """Queue what completes `work`, concerns nobody else and cannot fail."""
        self.waiting.add(work)
        self.background(task)

    def background(self, task: Task) -> None:
        """Queue what concerns nobody else and cannot fail."""
        if self._thread is None:
            self._thread = threading.Thread(target=_serve, args=(self._tasks,), name="ring backend", daemon=True)
            self._thread.start()
        self._tasks.put(task)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was queued as work has ended."""
        return self._last is None or self._last.is_completed()

    def end(self, most_s: float | None = None) -> None:
        """Block until what is queued has run or is given up, and the thread has ended; or that long. Idempotent.

        A thread must not be in gloo, or let go of what is gloo's, while the interpreter ends: the process would abort.
        """
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            over = RingWork(None)
            self.in_turn(over, over.complete)
            with suppress(Exception):  # given up, or not in time
                over.wait(FOREVER if most_s is None else timedelta(seconds=most_s))
        tasks, thread = self._tasks, self._thread
        self._tasks, self._thread = queue.SimpleQueue(), None
        tasks.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(END_S)
        if self._journal is not None:
            self._journal.close()
        self.waiting.settle(END_S)

    def give_up(self, error: BaseException) -> bool:
        """Leave the thread to gloo, which does not let it go: whatever was asked of it fails, and whatever will be.

        Whether anything had to be left.
        """
        self._broken = self._broken or error
        anything = self.waiting.give_up(self._broken)
        left, self._tasks, self._thread = self._tasks, queue.SimpleQueue(), None
        with suppress(queue.Empty):
            while True:
                self.background(left.get_nowait())
        left.put(None)
        return anything

    def _attempt(self, task: Task) -> BaseException | None:
        """What it raises. After one failure the ranks are no longer at the same point: what follows fails as well."""
        if isinstance(self._broken, RankDied):
            return self._broken
        if self._broken is not None:
            return RuntimeError(f"an earlier collective of this group failed: {self._broken}")
        try:
            task()
        except Disagreement as error:
            return error
        except BaseException as error:
            break_connections(self._data)  # so that every other rank fails now and not after its timeout
            self._broken = self.explain(error)
            return self._broken
        return None

    def _change(self, order: tuple[int, ...]) -> None:
        mine = torch.tensor([self.ring.epoch, *order], dtype=torch.int64)
        everyones = [torch.empty_like(mine) for _ in range(self._data.size())]
        self._data.allgather([everyones], [mine]).wait()
        for rank, theirs in enumerate(everyones):
            if not torch.equal(theirs, mine):
                raise Disagreement(
                    f"rank {rank} sets epoch and order {theirs.tolist()}, rank {self._data.rank()} {mine.tolist()}",
                    "call set_order on every rank of the group, between the same collectives, with the same order",
                )
        if order != self.ring.order:
            self.ring = Ring(self.ring.epoch + 1, order)


def _raise(error: BaseException) -> Iterator[None]:
    """When its turn comes."""
    raise error
    yield


def _serve(tasks: queue.SimpleQueue[Task | None]) -> None:
    """Until told to stop; keeps no task alive after its end."""
    while (task := tasks.get()) is not None:
        task()
        del task
