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
from functools import partial

from workers.backend.work import RingWork

Task = Callable[[], object]
_Tasks = queue.SimpleQueue[tuple[Task, Task | None] | None]


AT_MOST_S = 1.0
"""How long the end of the group waits for what is quick, and in a forked child never ends."""


class Waiting:
    """What waits for gloo in one group. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: set[RingWork] = set()
        self._error: BaseException | None = None
        self._threads = _Threads()
        weakref.finalize(self, self._threads.dismiss)

    def add(self, work: RingWork) -> None:
        """It fails when the rest is given up, at once if that has been."""
        with self._lock:
            self._works = {each for each in self._works if not each.is_completed()} | {work}
            error = self._error
        if error is not None:
            work.complete(error)

    def run(self, wait: Task, afterwards: Task | None = None) -> None:
        """Have a thread run it; blocks until that has ended, or is given up. Raises what it raised.

        That thread then goes on with `afterwards`, which is quick and cannot fail, unless the program has ended.
        """
        work = RingWork(None)
        self.add(work)
        self._threads.start(partial(_run, wait, work), afterwards)
        work.wait()

    def give_up(self, error: BaseException) -> None:
        """Whatever waits raises this now, and whatever comes later."""
        with self._lock:
            self._error, works = error, list(self._works)
        for work in works:
            work.complete(error)


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
        self._idle: list[_Tasks] = []
        self._tidying = threading.Lock()
        self._is_over = False

    def start(self, task: Task, afterwards: Task | None) -> None:
        try:
            tasks = self._idle.pop()
        except IndexError:
            tasks = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(tasks,), name="ring backend: waits", daemon=True).start()
        tasks.put((task, afterwards))

    def dismiss(self) -> None:
        """At the end of the group, or of the program: no thread may then be inside gloo on its own account."""
        got = self._tidying.acquire(timeout=AT_MOST_S)
        self._is_over = True
        if got:
            self._tidying.release()
        for tasks in self._idle:
            tasks.put(None)

    def _serve(self, tasks: _Tasks) -> None:
        """Keeps nothing alive after its end."""
        while (given := tasks.get()) is not None:
            task, afterwards = given
            task()
            if afterwards is not None:
                with self._tidying:
                    if not self._is_over:
                        afterwards()
            del given, task, afterwards
            if self._is_over:
                return
            self._idle.append(tasks)
