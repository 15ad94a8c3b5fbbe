"""A site's host as people script against it: run something inside a datacenter. See `Dc`."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.emulation import precedence
from testbed.emulation.plan import SitePlan
from testbed.emulation.processes import Ledger
from topologies import RingroadError


class Dc:
    """The host of one site. `netns_pid` is a process in its network namespace, where its one interface is `eth0`."""

    def __init__(self, plan: SitePlan, netns_pid: int, ledger: Ledger, log_folder: Path) -> None:
        self.name = plan.site
        self.ip = plan.ip
        self.mac = plan.mac
        self.netns_pid = netns_pid
        self._host = plan.host
        self._ledger = ledger
        self._log_folder = log_folder
        self._numbers = itertools.count(1)

    def popen(self, args: Sequence[str], *, log: Path | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start a program in this DC; it ends with the testbed at the latest.

        Its output goes to `log`, or to a file of its own in the log folder, unless `options` (those of
        `subprocess.Popen`) give `stdout` and `stderr`; a pipe must be read, or the program stops. It reads nothing.
        """
        log = log or self._log_folder / f"{self._host}-{next(self._numbers)}-{Path(args[0]).name}.log"
        name = f"{Path(args[0]).name} in {self.name}"
        process = self._ledger.start(name, self._command(args), log, **options)[1]
        precedence.follow(process.pid, self.netns_pid)
        return process

    def run(self, args: Sequence[str], timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Run a program in this DC to its end, its output as text. RingroadError when it takes longer than `timeout_s`.

        The exit code is for the caller to judge.
        """
        _, process = self._ledger.start(
            f"{args[0]} in {self.name}",
            self._command(args),
            None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        precedence.follow(process.pid, self.netns_pid)
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise RingroadError(f"{args[0]} in {self.name} took longer than {timeout_s:g} s") from error
            raise
        return subprocess.CompletedProcess(list(args), process.returncode, output, errors)

    def _command(self, args: Sequence[str]) -> list[str]:
        return ["mnexec", "-a", str(self.netns_pid), *map(str, args)]

    def __repr__(self) -> str:
        return f"<Dc {self.name} {self.ip}>"
