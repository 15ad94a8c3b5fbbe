"""Waiting for gloo in a way that can be left.

gloo forgets a message that was half on its way, in or out, when its connection broke: whoever waits for it waits until
the timeout of the group, and nothing ends that sooner. So it is a thread of this module that waits, in place of the one
that wants to know; that one is told, or goes on without it. Threads are used again: none is made for each message.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable

from workers.backend.work import RingWork

Task = Callable[[], object]


class Waiting:
    """What waits for gloo in one group. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: set[RingWork] = set()
        self._error: BaseException | None = None
        self._idle: list[queue.SimpleQueue[Task | None]] = []
        """Of each thread that has nothing to do, where it looks for work: the last one first."""
        weakref.finalize(self, _dismiss, self._idle)

    def add(self, work: RingWork) -> None:
        """It fails when the rest is given up, at once if that has been."""
        with self._lock:
            self._works = {each for each in self._works if not each.is_completed()} | {work}
            error = self._error
        if error is not None:
            work.complete(error)

    def run(self, wait: Task, afterwards: Task | None = None) -> None:
        """Have a thread run it; blocks until that has ended, or is given up. Raises what it raised.

        That thread then goes on with `afterwards`, which cannot fail.
        """
        work = RingWork(None)
        self.add(work)

        def task() -> None:
            try:
                wait()
            except BaseException as error:
                work.complete(error)
            else:
                work.complete()
            if afterwards is not None:
                afterwards()

        self._start(task)
        work.wait()

    def give_up(self, error: BaseException) -> None:
        """Whatever waits raises this now, and whatever comes later."""
        with self._lock:
            self._error, works = error, list(self._works)
        for work in works:
            work.complete(error)

    def _start(self, task: Task) -> None:
        try:
            tasks = self._idle.pop()
        except IndexError:
            tasks = queue.SimpleQueue()
            arguments = (weakref.ref(self), tasks)
            threading.Thread(target=_serve, args=arguments, name="ring backend: waits", daemon=True).start()
        tasks.put(task)


def _serve(owner: weakref.ref[Waiting], tasks: queue.SimpleQueue[Task | None]) -> None:
    """Until dismissed, or nobody is left to give work; keeps no task alive after its end."""
    while (task := tasks.get()) is not None:
        task()
        del task
        waiting = owner()
        if waiting is None:
            return
        waiting._idle.append(tasks)
        del waiting


def _dismiss(idle: list[queue.SimpleQueue[Task | None]]) -> None:
    for tasks in idle:
        tasks.put(None)
