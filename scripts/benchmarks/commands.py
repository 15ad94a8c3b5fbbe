"""Figures of the command line: how soon it answers, and how long the first experiment takes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Figure, Reach, figure
from topologies import RingroadError

RINGROAD = Path(sys.executable).with_name("ringroad")
QUICKSTART = Path(__file__).parents[2] / "experiments" / "quickstart.yaml"
CALLS = 11
DONE = (0, 3)
"""Exit codes of a run that is complete; 3 is one that the fidelity gate does not trust."""


def help_time() -> Iterator[Figure]:
    """`ringroad --help`, again and again."""
    took_s = []
    for _ in range(CALLS):
        called_at = time.monotonic()
        subprocess.run([RINGROAD, "--help"], stdout=subprocess.DEVNULL, check=True)
        took_s.append(time.monotonic() - called_at)
    yield figure("ringroad --help, median", statistics.median(took_s), "s", f"{CALLS} calls", Reach(at_most=0.3))


def quickstart() -> Iterator[Figure]:
    """The quickstart as a person runs it, set-up excluded; some minutes."""
    with tempfile.TemporaryDirectory(prefix="ringroad-bench-") as folder:
        began_at = time.monotonic()
        command = [RINGROAD, "run", QUICKSTART, "--out", folder, "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        took_min = (time.monotonic() - began_at) / 60
    if done.returncode not in DONE:
        raise RingroadError(f"the quickstart ended with exit code {done.returncode}")
    summary = json.loads(done.stdout)
    reported = [c["against"] for c in summary["comparisons"] if c["arm"] == "joint" and _has_interval(c)]
    trusted = 1 if summary["trustworthy"] else 0
    yield figure("quickstart after set-up", took_min, "min", "start of the command", Reach(at_most=6))
    yield figure(
        "quickstart, arms that joint is compared with, with an interval",
        len(set(reported)),
        "arms",
        "static, wan, ccl",
        Reach(at_least=3),
    )
    yield figure("quickstart passes its own fidelity gate", trusted, "", "1: trustworthy", Reach(at_least=1))


def _has_interval(comparison: dict) -> bool:
    estimate = comparison["by_charged_time"]
    return estimate["low"] is not None and estimate["high"] is not None
