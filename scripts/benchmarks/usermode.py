"""Figures of the user-mode kernel in real time: does it hold delays and rates?"""

from __future__ import annotations

import json
import subprocess
import tempfile
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
    """Delays and rates of a delayed WAN in the user-mode kernel in real time, as the gate of a run measures them."""
    with tempfile.TemporaryDirectory(prefix="ringroad-bench-") as name:
        folder = Path(name)
        command = [RINGROAD, "run", DELAYED, "--kernel", "uml", "--out", folder, "--quiet", "--json"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        if done.returncode not in DONE:
            raise RingroadError(f"the run ended with exit code {done.returncode}")
        measured = json.loads((folder / "gate.json").read_text())["figures"]
    yield from figures(measured)


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
    for word, rate in (("least", min(rates)), ("most", max(rates))):
        yield figure(f"uml: TCP's rates ÷ set, {word}", rate, "", against, Reach())
