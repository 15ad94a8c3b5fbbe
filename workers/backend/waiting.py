"""Waiting for gloo in a way that can be left.

gloo forgets a message that was half on its way, in or out, when its connection broke: whoever waits for it waits until
the timeout of the group, and nothing ends that sooner. So it is a thread of this module that waits, in place of the one
that wants to know; that one is told, or goes on without it. Threads are used again: none is made for each message.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

from workers.backend.work import RingWork

Task = Callable[[], object]
_Tasks = queue.SimpleQueue[Task | None]


class Waiting:
    """What waits for gloo in one group. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: weakref.WeakSet[RingWork] = weakref.WeakSet()
        """Whoever is to complete one holds it."""
        self._error: BaseException | None = None
        self._threads = _Threads()
        weakref.finalize(self, self._threads.dismiss)

    def add(self, work: RingWork) -> None:
        """It fails when the rest is given up, at once if that has been."""
        with self._lock:
            self._works.add(work)
            error = self._error
        if error is not None:
            work.complete(error)

    def start(self, work: RingWork, task: Task) -> None:
        """Have a thread run `task`, which completes `work`, unless that is given up before. Returns at once."""
        self.add(work)
        self._threads.start(task)

    def run(self, wait: Task) -> None:
        """Have a thread run it; blocks until that has ended, or is given up. Raises what it raised."""
        work = RingWork(None)
        self.start(work, partial(_run, wait, work))
        work.wait()

    def settle(self, most_s: float) -> None:
        """Block until the callbacks of what has ended have run; no longer than that."""
        deadline = time.monotonic() + most_s
        with self._lock:
            works = list(self._works)
        for work in works:
            work.settle(max(0.0, deadline - time.monotonic()))

    @property
    def is_busy(self) -> bool:
        """Whether a thread waits for gloo."""
        return bool(self._threads.busy)

    def end(self, most_s: float) -> None:
        """Block until no thread waits for gloo, but no longer than that."""
        deadline = time.monotonic() + most_s
        for thread in self._threads.dismiss():
            thread.join(max(0.0, deadline - time.monotonic()))

    def give_up(self, error: BaseException) -> bool:
        """Whatever waits raises this now, and whatever comes later. Whether anything waited."""
        with self._lock:
            self._error, works = error, list(self._works)
        return any([work.complete(error) for work in works])


def _run(wait: Task, work: RingWork) -> None:
    try:
        wait()
    except BaseException as error:
        work.complete(error)
    else:
        work.complete()


class _Threads:
    """As many as are needed at once; each waits for the next task, the last one first."""

    def __init__(self) -> None:
        self.busy: set[threading.Thread] = set()
        self._idle: list[tuple[threading.Thread, _Tasks]] = []
        self._is_over = False

    def start(self, task: Task) -> None:
        try:
            thread, tasks = self._idle.pop()
        except IndexError:
            tasks = queue.SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(tasks,), name="ring backend: waits", daemon=True)
            thread.start()
        self.busy.add(thread)
        tasks.put(task)

    def dismiss(self) -> list[threading.Thread]:
        """Those that are busy, or have been a moment ago: at the end of the group each ends after its task."""
        self._is_over = True
        left = list(self.busy)
        while self._idle:
            thread, tasks = self._idle.pop()
            tasks.put(None)
            left.append(thread)
        return left

    def _serve(self, tasks: _Tasks) -> None:
        """Keeps nothing alive after its end."""
        this = threading.current_thread()
        while (task := tasks.get()) is not None:
            task()
            del task
            self.busy.discard(this)
            if self._is_over:
                return
            self._idle.append((this, tasks))
