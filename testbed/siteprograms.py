"""One small program in each site of a running `Testbed`, all told what to do at once; what each said at its end.

The programs (`linkprobe`, `linkload`) print `ready PORT`, read one line of JSON and print one.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from testbed.bed import Testbed
from topologies import RingroadError

START_WITHIN_S = 30.0
LOG_REMEDY = "its log is in the run folder"


def run_in_sites(
    bed: Testbed, program: Path, sites: Iterable[str], plan: Callable[[str, dict[str, int]], dict[str, Any]]
) -> dict[str, Any]:
    """By site what its program said. `plan` gives, for a site and the ports of all, what it is told.

    What it is told says in `end_at` when it will be done (s, CLOCK_MONOTONIC). RingroadError if one does not start, or
    does not end.
    """
    ends: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for site in sites:
            command = [sys.executable, "-S", str(program)]
            ends[site] = bed.site(site).popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ports = {site: _port(end, site) for site, end in ends.items()}
        plans = {site: plan(site, ports) for site in ends}
        for site, end in ends.items():
            _tell(end, plans[site])
        return {site: _result(end, site, plans[site]["end_at"] + START_WITHIN_S) for site, end in ends.items()}
    finally:
        for process in ends.values():
            process.kill()
            process.communicate()


def _port(end: subprocess.Popen[bytes], site: str) -> int:
    assert end.stdout is not None
    said, deadline = b"", time.monotonic() + START_WITHIN_S
    while not said.endswith(b"\n"):
        ready, _, _ = select.select([end.stdout], [], [], max(0.0, deadline - time.monotonic()))
        piece = os.read(end.stdout.fileno(), 4096) if ready else b""
        if not piece:
            raise RingroadError(f"the program that measures links does not start in {site}", LOG_REMEDY)
        said += piece
    return int(said.split()[1])


def _tell(end: subprocess.Popen[bytes], plan: dict[str, Any]) -> None:
    assert end.stdin is not None
    end.stdin.write(json.dumps(plan).encode() + b"\n")
    end.stdin.flush()


def _result(end: subprocess.Popen[bytes], site: str, deadline: float) -> Any:
    try:
        output, _ = end.communicate(timeout=max(0.0, deadline - time.monotonic()))
        return json.loads(output)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise RingroadError(f"the program that measures links in {site} is stuck, or has died", LOG_REMEDY) from error
