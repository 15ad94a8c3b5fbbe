"""The dashboard that a testbed comes up with: a process of its own, which talks to the control socket like anybody."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.emulation.processes import Process, end_of_log
from topologies.errors import RingroadError

DASHBOARD_S = 20.0
"""How long it may take to listen."""


@dataclass(frozen=True)
class DashboardSettings:
    """`listen`: [ADDRESS:]PORT, on 127.0.0.1 unless it says otherwise; port 0 takes a free one."""

    listen: str = "0"
    token_file: Path | None = None


def start_dashboard(
    start: Callable[..., Process], socket: Path, log_folder: Path, settings: DashboardSettings
) -> tuple[Process, str]:
    """The process, and its address. `start` is as `Testbed.start`. RingroadError if it does not answer in time."""
    readable, writable = os.pipe()
    log_file = log_folder / "dashboard.log"
    command = [sys.executable, "-m", "testbed.live.web", "--socket", str(socket)]
    command += ["--listen", settings.listen]
    command += ["--token-file", str(settings.token_file)] if settings.token_file else []
    try:
        process = start("dashboard", command, log_file, stdout=writable)
    finally:
        os.close(writable)
    with os.fdopen(readable) as said:
        line = said.readline() if select.select([said], [], [], DASHBOARD_S)[0] else ""
    if not line:
        said = "\n".join(f"    {each}" for each in end_of_log(log_file))
        raise RingroadError(f"the dashboard did not start; the end of its log:\n{said}", "leave --dashboard out")
    return process, str(json.loads(line)["address"])
