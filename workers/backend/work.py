"""What a collective returns: `torch.distributed.Work` with a future, completed by the thread that runs it or waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

import torch
from torch._C._distributed_c10d import Work

from workers.backend.mode import in_mode_of_caller

FOREVER = timedelta(0)
"""No timeout but the group's own."""

Explain = Callable[[BaseException], BaseException]
"""Of an error of gloo, what to raise instead: it may be known why."""


Start = Callable[["RingWork", Callable[[], None]], None]
"""Has a thread run what completes a work. Returns at once."""


def as_it_is(error: BaseException) -> BaseException:
    """Where nothing more is known."""
    return error


def raise_explained(error: BaseException, explain: Explain) -> NoReturn:
    """Raise what `explain` makes of an error that is being handled."""
    explained = explain(error)
    if explained is error:
        raise error
    raise explained from error


class RingWork(Work):
    """`wait` blocks the calling thread only; the result is what stock gloo gives: a list of the output tensors."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result
        self._lock = threading.Lock()
        self._has_ended = False
        self._gate = threading.Lock()
        """Open once it has ended. Cheaper than an event: small collectives make one each."""
        self._gate.acquire()
        self._future: torch.futures.Future[Any] | None = None
        self._error: BaseException | None = None
        self._callbacks: threading.Thread | None = None

    def complete(self, error: BaseException | None = None) -> bool:
        """Called by the thread that has run it. Only the first time counts: whether it was that.

        Callbacks of the future run in a thread of their own: they may wait for collectives that this one has to run.
        """
        with self._lock:
            if self._has_ended:
                return False
            self._error = error
            self._has_ended = True
            future = self._future
        self._gate.release()
        if future is not None:
            thread = threading.Thread(target=self._fulfil, args=(future,), name="ring backend: callbacks", daemon=True)
            thread.start()
            self._callbacks = thread
        return True

    def settle(self, most_s: float) -> None:
        """Block until the callbacks of its future have run, if it has ended; no longer than that."""
        callbacks = self._callbacks
        if callbacks is not None and callbacks is not threading.current_thread():
            callbacks.join(most_s)

    def wait(self, timeout: timedelta = FOREVER) -> bool:
        """Block until it has ended. Raises what it raised; RuntimeError after `timeout`, which breaks nothing."""
        if not self._has_ended:
            if not self._gate.acquire(timeout=timeout.total_seconds() or -1):
                raise RuntimeError(f"the collective is not done after {timeout}")
            self._gate.release()  # for whoever waits as well
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """Holds the output tensors, or the exception."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = torch.futures.Future()
            has_ended = self._has_ended
        if has_ended:
            self._fulfil(self._future)
        return self._future

    def result(self) -> Any:
        """The output tensors."""
        return self._result

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._has_ended

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """What it raised."""
        return self._error

    def _fulfil(self, future: torch.futures.Future[Any]) -> None:
        if self._error is None:
            future.set_result(self._result)
        else:
            future.set_exception(self._error)


class LazyWork(RingWork):
    """A collective that has begun; the `rest` is done by whoever waits for it.

    `in_turn(work, task)` has a thread do it for those who do not wait, and want to be told.
    """

    def __init__(self, result: Any, rest: Callable[[], object], in_turn: Start, explain: Explain = as_it_is) -> None:
        super().__init__(result)
        self._explain = explain
        self._rest: list[Callable[[], object]] = [in_mode_of_caller(rest)]
        self._in_turn = in_turn
        self._has_turn = False

    def proceed(self) -> None:
        """Make it end although nobody waits. Returns at once; idempotent."""
        if self._rest and not self._has_turn:
            self._has_turn = True
            self._in_turn(self, self._settle)

    def wait(self, timeout: timedelta = FOREVER) -> bool:
        """See RingWork."""
        if timeout:
            self.proceed()
        elif self._rest:
            self._settle()
        return super().wait(timeout)

    def get_future(self) -> torch.futures.Future[Any]:
        """See RingWork."""
        self.proceed()
        return super().get_future()

    def is_completed(self) -> bool:
        """See RingWork."""
        self.proceed()
        return super().is_completed()

    def _settle(self) -> None:
        try:
            rest = self._rest.pop()
        except IndexError:
            return  # another thread does it
        try:
            rest()
        except BaseException as error:
            self.complete(self._explain(error))
        else:
            self.complete()


class StockWork(Work):
    """gloo's own work, whose error is explained. `run(wait)` waits for it in a way that can be left."""

    def __init__(self, work: Work, run: Callable[[Callable[[], object]], None], explain: Explain) -> None:
        super().__init__()
        self._work, self._run, self._explain = work, run, explain

    def wait(self, timeout: timedelta = FOREVER) -> bool:
        """Block until it has ended; a timeout, as everywhere in gloo, closes the connections of the group."""
        try:
            self._run(partial(self._work.wait, timeout) if timeout else self._work.wait)
        except RuntimeError as error:
            raise_explained(error, self._explain)
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """gloo's."""
        return self._work.get_future()

    def result(self) -> Any:
        """gloo's."""
        return self._work.result()

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._work.is_completed()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._work.is_success()

    def exception(self) -> Any:
        """What it raised."""
        return self._work.exception()

    def _source_rank(self) -> int:
        return self._work._source_rank()


class Together(Work):
    """Several collectives as one (coalescing)."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__()
        self._works = list(works)

    def wait(self, timeout: timedelta = FOREVER) -> bool:
        """Block until all have ended."""
        return all([work.wait(timeout) for work in self._works])

    def get_future(self) -> torch.futures.Future[Any]:
        """Holds the output tensors of all of them in a row."""
        futures = torch.futures.collect_all([work.get_future() for work in self._works])
        return futures.then(lambda done: [tensor for future in done.value() for tensor in future.value()])

    def is_completed(self) -> bool:
        """Whether all have ended."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Whether all have ended well."""
        return all(work.is_success() for work in self._works)
