"""Second 0 of the trace of a program: when all its ranks have joined, or when they have had long enough to.

Importing and finding each other takes some seconds, never the same; from a common point on, arms meet the same WAN.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Literal

from testbed.arm import Trace
from testbed.dynamics.player import Player
from testbed.execution.limits import Limits
from testbed.fidelity import CpuSample

log = logging.getLogger(__name__)

From = Literal["joined", "start"]

JOINED_AFTER_S = 60.0
"""A program none of whose ranks has joined a group by then is taken for one that makes none."""


class Beginning:
    """Starts the trace once, whoever says so first. Methods are for any thread."""

    def __init__(self, player: Player, trace: Trace, limits: Limits) -> None:
        self._player, self._trace, self._limits = player, trace, limits
        self._lock = threading.Lock()
        self._over = False
        self._timer = threading.Timer(JOINED_AFTER_S, self._late)
        self._timer.daemon = True

    @property
    def at(self) -> float | None:
        """Second 0 in s of CLOCK_MONOTONIC; None before it."""
        return self._trace.started_at

    def since(self, samples: Sequence[CpuSample]) -> list[CpuSample]:
        """Those from second 0 on, for before it ranks import and compute without the WAN; all if there was none."""
        later = [sample for sample in samples if self.at is not None and sample.since >= self.at]
        return later or list(samples)

    def expect(self, trace_from: From) -> None:
        """The processes run: begin now, or as soon as they have joined."""
        if trace_from == "start":
            self.begin()
        else:
            self._timer.start()

    def begin(self) -> None:
        """Second 0 is now, unless it has been."""
        with self._lock:
            if self._over or self._trace.started_at is not None:
                return
            now = time.monotonic()
            self._trace.started_at = self._limits.started_at = now
            self._player.start(now)
        self._timer.cancel()

    def end(self) -> None:
        """Play no more. Raises what went wrong while playing."""
        with self._lock:
            self._over = True
        self._timer.cancel()
        self._player.stop()

    def _late(self) -> None:
        log.warning(
            "not all ranks have joined a process group within %g s: the trace starts now (--trace-from start starts it "
            "with the program)",
            JOINED_AFTER_S,
        )
        self.begin()
