"""A live testbed that is up, for who brought it up: where it is and how it is reached, whichever kernel it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LOG = "up.log"
"""Where a detached testbed writes what one in the foreground shows."""


@dataclass(frozen=True)
class Running:
    """`pid` is the process whose end is the testbed's; `kernel` says in words which one it runs on."""

    wan: str
    run_id: str
    pid: int
    socket: Path
    log_folder: Path
    dashboard: str | None
    kernel: str

    def facts(self) -> dict[str, object]:
        """What others need to find it, as JSON."""
        return {
            "wan": self.wan,
            "run_id": self.run_id,
            "pid": self.pid,
            "socket": str(self.socket),
            "log": str(self.log_folder / LOG),
            "dashboard": self.dashboard,
            "kernel": self.kernel,
        }
