"""Figures of the user-mode kernel in real time: does it hold delays and rates, and how long until a run begins?"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.commands import DONE, RINGROAD
from benchmarks.figure import Figure, Reach, figure, worst_of
from testbed.emulation.qdisc import FRAME_BYTES
from topologies import RingroadError

DELAYED = Path(__file__).parents[2] / "experiments" / "delayed.yaml"
PAYLOAD_BYTES = 9000 - 20 - 32
"""Of a full frame: without the headers of IP, and of TCP with its timestamps."""


def delayed_mesh() -> Iterator[Figure]:
    """Delays and rates of a delayed WAN in the user-mode kernel in real time, and the time to its first collective."""
    with tempfile.TemporaryDirectory(prefix="ringroad-bench-") as name:
        folder = Path(name)
        began_at = time.time()
        command = [RINGROAD, "run", DELAYED, "--kernel", "uml", "--out", folder, "--quiet", "--json"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        if done.returncode not in DONE:
            raise RingroadError(f"the run ended with exit code {done.returncode}")
        measured = json.loads((folder / "gate.json").read_text())["figures"]
        first_s = _first_collective_at(folder) - began_at
    yield from figures(measured)
    yield figure("uml: command to first collective of a run, its gate before", first_s, "s", "wall", Reach(at_most=60))


def figures(gate: dict[str, Any]) -> Iterator[Figure]:
    """From what the gate of a run has measured: round trips of idle links, rates with all links loaded."""
    edges = {tuple(each["edge"]): each for each in gate["edges"]}
    trips, wanted_s = [], 0.0
    for (a, b), forward in edges.items():
        backward = edges[b, a]
        wanted_s = forward["properties"]["delay_s"] + backward["properties"]["delay_s"]
        trips.append((forward["delay_s"] + backward["delay_s"]) / wanted_s)
    yield worst_of("uml: round trips ÷ set", trips, "", f"{wanted_s * 1e3:g} ms", Reach(0.98, 1.02))
    rates = [each["ratio"] * FRAME_BYTES / PAYLOAD_BYTES for each in gate["goodputs"]]
    set_bps = gate["goodputs"][0]["set_bps"]
    against = f"{set_bps / 1e6:g} Mbit/s, headers counted, {len(rates) // 2} links at once"
    yield worst_of("uml: rates ÷ set, TCP", rates, "", against, Reach(0.97, 1.03))


def _first_collective_at(folder: Path) -> float:
    """When the first record of a collective was written: the birth of its file, by the machine's clock."""
    files = list(folder.glob("blocks/*/*/collectives.jsonl"))
    if not files:
        raise RingroadError("the run has no collective")
    said = subprocess.run(["stat", "--format=%.9W", *files], capture_output=True, text=True, check=True).stdout
    return min(float(line) for line in said.split())
