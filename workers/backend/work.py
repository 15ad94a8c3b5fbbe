"""What a collective returns: `torch.distributed.Work` with a future, completed by the thread that runs it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work


class RingWork(Work):
    """`wait` blocks the calling thread only; the result is what stock gloo gives: a list of the output tensors."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result
        self._ended = threading.Event()
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._error: BaseException | None = None

    def complete(self, error: BaseException | None = None) -> None:
        """Called once, by the thread that has run it; callbacks of the future run here."""
        self._error = error
        self._ended.set()
        if error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(error)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until it has ended. Raises what it raised, RuntimeError after `timeout` (0: the group's own counts)."""
        if not self._ended.wait(timeout.total_seconds() or None):
            raise RuntimeError(f"the collective is not done after {timeout}")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """Holds the output tensors, or the exception."""
        return self._future

    def result(self) -> Any:
        """The output tensors."""
        return self._result

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._ended.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """What it raised."""
        return self._error


class Together(Work):
    """Several collectives as one (coalescing)."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__()
        self._works = list(works)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until all have ended."""
        return all(work.wait(timeout) for work in self._works)

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
