"""Whether a user-mode kernel still gets anywhere: by what it says in real time, by its clock in virtual time."""

from __future__ import annotations

import time
from pathlib import Path

from testbed.kernels.images import Image
from testbed.kernels.virtualclock import SpinWatch, VirtualClock

SILENT_S = 60.0
"""A kernel in real time says that it lives every 5 s."""


class Stillness:
    """For a kernel in real time: it is still if nothing was heard of it for a minute."""

    arguments: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._heard_at = time.monotonic()

    @staticmethod
    def of(image: Image, folder: Path) -> Stillness:
        """The kind that fits the kernel's clock; `folder` is for what it has to keep."""
        return OfClock(folder) if image.virtual_time else Stillness()

    def heard(self) -> None:
        """A message has come."""
        self._heard_at = time.monotonic()

    def look(self, now: float) -> str:
        """What is wrong, for people; empty while nothing is. `now` is CLOCK_MONOTONIC."""
        silent_s = now - self._heard_at
        return f"the user-mode kernel has said nothing for {silent_s:.0f} s" if silent_s > SILENT_S else ""

    def virtual_s(self) -> float | None:
        """The kernel's own clock, if it has one."""
        return None


class OfClock(Stillness):
    """For a kernel in virtual time: it is still if its clock has not moved for a minute of wall time."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._clock = VirtualClock(folder / "clock")
        self._watch = SpinWatch()
        self.arguments = (self._clock.argument,)

    def look(self, now: float) -> str:
        """As of the kernel in real time; says also which process spins."""
        reading = self._clock.read()
        return (self._watch.look(now, reading) if reading is not None else None) or ""

    def virtual_s(self) -> float | None:
        """Seconds since its boot."""
        reading = self._clock.read()
        return reading.time_s if reading is not None else None
