"""The capacity feed: what a WAN controller hears of its links, and how late. See `Feed`.

A real controller learns capacities from its optical layer or a bandwidth broker, not from switches; this stands for
that. It knows nothing of the controller but a function that takes capacities.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from topologies import Edge, InputError

Deliver = Callable[[Mapping[Edge, float], float], None]
"""Takes bit/s by directed edge, and when that came to be (CLOCK_MONOTONIC)."""


@dataclass(frozen=True)
class FeedSettings:
    """`delay_s`: how long after a change the controller hears of it."""

    delay_s: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.delay_s) and self.delay_s >= 0):
            raise InputError(
                "delay_s of the feed is out of range", value=self.delay_s, remedy="give 0 or more, as 50ms"
            )

    @property
    def label(self) -> str:
        """What every result says about where the controller's capacities came from."""
        return f"capacity: feed, delay {self.delay_s:g} s"


class Feed:
    """A thread that hands each change on once its delay is over, in order. `failure` holds what ended it early."""

    def __init__(self, settings: FeedSettings, deliver: Deliver) -> None:
        self.settings = settings
        self.failure: Exception | None = None
        self._deliver = deliver
        self._due: list[tuple[float, int, Mapping[Edge, float], float]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="capacity feed", daemon=True)
        self._thread.start()

    def tell(self, rates_bps: Mapping[Edge, float], happened_at: float) -> None:
        """These capacities came to be at `happened_at`. Returns at once."""
        with self._changed:
            entry = (happened_at + self.settings.delay_s, next(self._numbers), dict(rates_bps), happened_at)
            heapq.heappush(self._due, entry)
            self._changed.notify_all()

    def forget(self) -> None:
        """Drop what has not been delivered yet; returns when no delivery is under way."""
        with self._changed:
            self._due.clear()
            self._changed.wait_for(lambda: not self._busy)

    def close(self) -> None:
        """Stop; what has not been delivered is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while (due := self._next()) is not None:
            try:
                self._deliver(*due)
            except Exception as error:
                self.failure = error
                return
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _next(self) -> tuple[Mapping[Edge, float], float] | None:
        with self._changed:
            while not self._closed:
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    _, _, rates_bps, happened_at = heapq.heappop(self._due)
                    self._busy = True
                    return rates_bps, happened_at
                self._changed.wait(wait_s)
            return None
