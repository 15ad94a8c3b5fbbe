"""The capacity feed: what a WAN controller hears of its links, how late, and how well. See `Feed`.

A real controller learns capacities from its optical layer or a bandwidth broker, not from switches; this stands for
that. It knows nothing of the controller but a function that takes capacities. What it makes of a capacity depends on
the seed, the edge and the count of its reports alone, so that every arm of a block hears the same.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from testbed.dynamics.traces import random_stream
from topologies import Edge, InputError
from topologies.units import format_rate

Deliver = Callable[[Mapping[Edge, float], float], None]
"""Takes bit/s by directed edge, and when that came to be (CLOCK_MONOTONIC)."""


LEAST_SHARE = 0.01
"""Noise never takes more from a report: a report of nothing would say that the link is dead."""


@dataclass(frozen=True)
class FeedSettings:
    """`delay_s`: how long after a change the controller hears of it.

    `noise` is the standard deviation of a report as a fraction of the capacity (normal), `quantum_bps` the step that
    reports are rounded to (0: none; never to nothing), `loss` the probability that the report of an edge is lost: the
    controller then believes the one before. The order is noise, quantum, loss.
    """

    delay_s: float = 0.0
    noise: float = 0.0
    quantum_bps: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        checks = (
            ("delay_s", self.delay_s >= 0, "0 or more, as 50ms"),
            ("noise", 0 <= self.noise < 1, "a fraction from 0 to below 1, as 0.05"),
            ("quantum_bps", self.quantum_bps >= 0, "a rate, as 10mbit, or 0 for none"),
            ("loss", 0 <= self.loss < 1, "a probability from 0 to below 1, as 0.01"),
        )
        for name, good, remedy in checks:
            value = getattr(self, name)
            if not (math.isfinite(value) and good):
                raise InputError(f"{name} of the feed is out of range", value=value, remedy=f"give {remedy}")

    @property
    def label(self) -> str:
        """What every result says about where the controller's capacities came from."""
        parts = [f"capacity: feed, delay {self.delay_s:g} s"]
        if self.noise:
            parts.append(f"noise {self.noise:.3g} of the capacity")
        if self.quantum_bps:
            parts.append(f"in steps of {format_rate(self.quantum_bps)}")
        if self.loss:
            parts.append(f"{self.loss:.3g} of the reports lost")
        return ", ".join(parts)


def report_bps(settings: FeedSettings, rate_bps: float, stream: random.Random) -> float | None:
    """What the controller is told of a capacity, by the next numbers of a stream; None: the report is lost."""
    noise, lost = stream.gauss(0, 1), stream.random()
    if lost < settings.loss:
        return None
    told_bps = rate_bps * max(LEAST_SHARE, 1 + settings.noise * noise)
    if settings.quantum_bps:
        told_bps = settings.quantum_bps * max(1, round(told_bps / settings.quantum_bps))
    return told_bps


class Feed:
    """A thread that hands each change on once its delay is over, in order. `failure` holds what ended it early."""

    def __init__(self, settings: FeedSettings, deliver: Deliver, seed: int = 0) -> None:
        self.settings = settings
        self._seed, self._streams = seed, dict[Edge, random.Random]()
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
            told = {edge: report_bps(self.settings, rate, self._stream(edge)) for edge, rate in rates_bps.items()}
            heard = {edge: rate for edge, rate in told.items() if rate is not None}
            if not heard:
                return
            entry = (happened_at + self.settings.delay_s, next(self._numbers), heard, happened_at)
            heapq.heappush(self._due, entry)
            self._changed.notify_all()

    def forget(self, seed: int | None = None) -> None:
        """Drop what has not been delivered yet, and begin anew by the seed, another one if given.

        Returns when no delivery is under way.
        """
        with self._changed:
            self._due.clear()
            self._streams.clear()
            self._seed = self._seed if seed is None else seed
            self._changed.wait_for(lambda: not self._busy)

    def close(self) -> None:
        """Stop; what has not been delivered is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _stream(self, edge: Edge) -> random.Random:
        if edge not in self._streams:
            self._streams[edge] = random_stream(self._seed, f"feed {edge[0]} -> {edge[1]}")
        return self._streams[edge]

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
