"""How a run tells a person how far it is: a bar on a terminal, lines elsewhere, nothing when quiet. All on stderr."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from testbed.kernels import inside
from topologies.units import format_duration

REFRESHES_PER_SECOND = 1
"""The run needs the machine more than the bar does."""


CLOCKS_EVERY_S = 60.0
"""How often lines tell both clocks when nothing else happens."""


def in_both(virtual_s: float, wall_s: float) -> str:
    """Both clocks of a run in virtual time, for people."""
    return f"virtual {format_duration(virtual_s)}, wall {format_duration(wall_s)}"


class Progress(Protocol):
    """Who is told how far a run is."""

    def keep_in(self, folder: Path) -> None:
        """Once, when the run folder exists."""

    def begin(self, total: int) -> None:
        """Once, before the first arm: how many collectives all arms of all blocks have."""

    def phase(self, text: str) -> None:
        """What is being done now."""

    def advance(self) -> None:
        """One more collective is done."""


class Reporter:
    """Tells nobody, but remembers the run folder. The other kinds of progress build on it."""

    def __init__(self) -> None:
        self.folder: Path | None = None

    def shown(self) -> AbstractContextManager[object]:
        """Enter while the run goes on."""
        return nullcontext()

    def keep_in(self, folder: Path) -> None:
        """See `Progress`."""
        self.folder = folder

    def begin(self, total: int) -> None:
        """See `Progress`."""

    def phase(self, text: str) -> None:
        """See `Progress`."""

    def advance(self) -> None:
        """See `Progress`."""

    def clocks(self, virtual_s: float, wall_s: float) -> None:
        """Every second or so while the run is in virtual time: how far that is, and what it has taken so far."""


class Lines(Reporter):
    """One line per phase: for logs and pipes. Of clocks one a minute, as long as nothing else is said."""

    def __init__(self) -> None:
        super().__init__()
        self._clocks = ""
        self._said_at_s = 0.0

    def keep_in(self, folder: Path) -> None:
        """See `Progress`."""
        super().keep_in(folder)
        self.phase(f"results go to {folder}")

    def phase(self, text: str) -> None:
        """See `Progress`."""
        print(f"{self._clocks}{text}", file=sys.stderr, flush=True)

    def clocks(self, virtual_s: float, wall_s: float) -> None:
        """In front of each line from now on."""
        self._clocks = f"[{in_both(virtual_s, wall_s)}] "
        if wall_s - self._said_at_s >= CLOCKS_EVERY_S:
            self._said_at_s = wall_s
            self.phase("…")


class Bar(Reporter):
    """A bar with the phase, the count of collectives and the time left."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=REFRESHES_PER_SECOND,
            expand=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._phase = ""

    def shown(self) -> AbstractContextManager[object]:
        """Enter while the run goes on."""
        return self._bar

    def keep_in(self, folder: Path) -> None:
        """See `Progress`."""
        super().keep_in(folder)
        self._bar.console.print(f"results go to {folder}", highlight=False, soft_wrap=True)

    def begin(self, total: int) -> None:
        """See `Progress`."""
        self._bar.reset(self._task, total=total)

    def phase(self, text: str) -> None:
        """See `Progress`."""
        self._phase = text
        self._bar.update(self._task, description=text, refresh=True)

    def advance(self) -> None:
        """See `Progress`."""
        self._bar.advance(self._task)

    def clocks(self, virtual_s: float, wall_s: float) -> None:
        """Behind the phase."""
        self._bar.update(self._task, description=f"{self._phase} ({in_both(virtual_s, wall_s)})")


class Outwards(Reporter):
    """Inside a user-mode kernel: everything is told to whoever booted it, who shows it."""

    def __init__(self) -> None:
        super().__init__()
        self._relay = inside.Relay()

    def keep_in(self, folder: Path) -> None:
        """See `Progress`."""
        super().keep_in(folder)
        self._relay.progress("keep_in", str(folder))

    def begin(self, total: int) -> None:
        """See `Progress`."""
        self._relay.progress("begin", total)

    def phase(self, text: str) -> None:
        """See `Progress`."""
        self._relay.progress("phase", text)

    def advance(self) -> None:
        """See `Progress`."""
        self._relay.progress("advance")


def reporter(quiet: bool) -> Reporter:
    """The kind of progress that fits what stderr is."""
    if quiet:
        return Reporter()
    if inside.is_inside():
        return Outwards()
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else Lines()
