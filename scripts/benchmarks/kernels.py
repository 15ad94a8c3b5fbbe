"""Figures of the exact kernel: against limits and theory, from one run to the next, and how long it takes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import textbook
from benchmarks.commands import DONE, QUICKSTART, RINGROAD
from benchmarks.figure import Figure, Reach, figure, figures_of, worst_of
from benchmarks.usermode import delayed_mesh
from testbed.emulation import qdisc
from testbed.kernels.choosing import Choice, Kernel
from testbed.kernels.relaunch import carry_out
from topologies import RingroadError
from topologies.model import EdgeProperties

MESH = {"wan": "mesh4", "rate": 100e6, "size": 8 * 2**20}
SIX = {"wan": "six", "rate": 10e9, "delay": 0.010, "size": 16 * 2**20, "warmup": 6, "count": 3}
WINDOWS = {"bbr": Reach(at_most=1.10), "cubic": Reach()}
"""What grows the windows that fill long links. Cubic's now and then lack a round trip for some collectives, and which,
differs with every change of the code: it is shown, and held against nothing.
"""
CHUNK_BYTES = 512 * 1024
"""Of a `Job`, unless it says otherwise."""
REPEATS = 10
PINGS = {"rate": 1e9, "delay": 0.010}
DELAYED = {"rate": 50e6, "delay": 0.025}
RENO = {"rate": 50e6, "delay": 0.020, "seconds": 90}


def measured(kernel: Kernel, measurement: str, **options: float | str) -> dict[str, Any]:
    """What `benchmarks.onkernel` measures on that kernel; wall times are added, on the host's clock."""
    with tempfile.TemporaryDirectory(prefix="ringroad-bench-") as folder:
        file = Path(folder) / "measured.json"
        given = [f"--{name}={value}" for name, value in options.items()]
        command = [sys.executable, "-m", "benchmarks.onkernel", str(file), measurement, *given]
        began_at = time.time()
        if kernel is Kernel.NATIVE:
            status = subprocess.run(command, stdin=subprocess.DEVNULL).returncode
        else:
            status = carry_out(Choice(kernel, "asked for"), command, writable=[Path(folder)])
        if status != 0 or not file.exists():
            raise RingroadError(f"{measurement} on the {kernel.value} kernel ended with status {status}")
        found = json.loads(file.read_text())
        marks = sorted((each.stat().st_ctime, float(each.name[3:])) for each in Path(folder).glob("at-*"))
    found["wall_s"] = time.time() - began_at
    if marks:
        found["first_wall_s"] = marks[0][0] - began_at
        found["wall_per_virtual"] = (marks[-1][0] - marks[0][0]) / max(1e-9, marks[-1][1] - marks[0][1])
    return found


def times_s(found: dict[str, Any]) -> list[float]:
    """How long each collective took, from its first rank's start to its last rank's end."""
    return [end - start for start, end in found["collectives"]]


def ring_on_a_mesh() -> Iterator[Figure]:
    """AllGather on mesh4 in exact mode, ten times on a quiet machine and ten times on one whose cores all burn."""
    limit_s = textbook.ring_limit_s(4, int(MESH["size"]), MESH["rate"])
    quiet = [times_s(measured(Kernel.EXACT, "ring", **MESH)) for _ in range(REPEATS)]
    with burning_cores():
        loaded = [times_s(measured(Kernel.EXACT, "ring", **MESH)) for _ in range(REPEATS)]
    ratios = [each / limit_s for run in quiet for each in run]
    yield worst_of("exact: ring AllGather, mesh4, 8 MiB", ratios, "", "(n−1)·S ÷ rate", Reach(1.0, 1.010))
    for name, runs in (("quiet", quiet), (f"{os.cpu_count()} cores loaded", [*quiet[:1], *loaded])):
        yield figure(f"exact: spread of {len(runs)} runs, {name}", spread(runs), "%", "their median", Reach(0, 0.1))


def spread(runs: Sequence[Sequence[float]]) -> float:
    """Over runs, the widest range of a collective's time in percent of its median; collectives go by their number."""
    return 100 * max((max(same) - min(same)) / statistics.median(same) for same in zip(*runs, strict=True))


def ring_over_long_links() -> Iterator[Figure]:
    """AllGather on six at 10 Gbit/s with links of 10 ms in exact mode, its windows grown."""
    size, rate, delay = int(SIX["size"]), float(SIX["rate"]), float(SIX["delay"])
    for control, reach in WINDOWS.items():
        found = measured(Kernel.EXACT, "ring", control=control, **SIX)
        order = found["dcs"]
        limit_s = textbook.ring_limit_s(len(order), size, rate, found["sharing"])
        delays_s = [found["hops"][f"{a} {b}"] * delay for a, b in pairwise([*order, order[0]])]
        chunk_s = CHUNK_BYTES * 8 / rate
        # Links are idle while the last bytes are under way, and their buckets fill: so much may leave at once.
        least_s = textbook.ring_over_delays_s(delays_s, limit_s / (len(order) - 1), chunk_s) - qdisc.BURST_S
        ratios = [each / least_s for each in times_s(found)]
        against = (
            f"{limit_s * 1e3:.1f} ms for the bytes + {(least_s - limit_s) * 1e3:.1f} ms for delays, less full buckets"
        )
        yield figure(f"exact: ring AllGather, six, 10 Gbit/s, 16 MiB, {control}", max(ratios), "", against, reach)


def round_trips() -> Iterator[Figure]:
    """Round trips over one link in exact mode: a fixed delay, a delay that varies, and losses."""
    found = measured(Kernel.EXACT, "ping", count=100, **PINGS)
    times_ms = [each * 1e3 for each in found["round_trips_s"]]
    yield worst_of("exact: round trip of 2 × 10 ms", times_ms, "ms", "20 ms", Reach(19.95, 20.05))
    jitter_s = 0.002
    found = measured(Kernel.EXACT, "ping", count=2000, jitter=jitter_s, **PINGS)
    mean_s, deviation_s = textbook.round_trip_of_uniform_jitter(float(PINGS["delay"]), jitter_s)
    ratio = statistics.fmean(found["round_trips_s"]) / mean_s
    yield figure("exact: jitter of ± 2 ms, mean round trip", ratio, "", "2 × delay", Reach(0.99, 1.01))
    ratio = statistics.stdev(found["round_trips_s"]) / deviation_s
    yield figure("exact: jitter of ± 2 ms, standard deviation", ratio, "", "√(2/3) × jitter", Reach(0.95, 1.05))
    found = measured(Kernel.EXACT, "ping", count=2000, loss=0.05, **PINGS)
    lost = 1 - len(found["round_trips_s"]) / found["sent"]
    expected = textbook.chance_of_both_ways(0.05)
    # 2000 trials of 0.0975: one standard deviation is 0.0066, and three of them 20 %.
    yield figure("exact: loss of 5 % each way", lost / expected, "", "1 − 0.95²", Reach(0.8, 1.2))


def renos_sawtooth() -> Iterator[Figure]:
    """One reno flow over one link in exact mode: the teeth of its window, against the textbook."""
    found = measured(Kernel.EXACT, "flow", control="reno", **RENO)
    rate, delay = float(RENO["rate"]), float(RENO["delay"])
    tree = qdisc.wanted_tree(EdgeProperties(rate, delay), netem=True)
    assert tree.impairment is not None
    back = rate / 8 * delay / qdisc.FRAME_BYTES
    expected = textbook.sawtooth(rate, qdisc.FRAME_BYTES, back, tree.impairment.limit_packets)
    windows = [each / found["segment_bytes"] for each in found["windows_bytes"]]
    got = textbook.measured_sawtooth(found["ends_s"], windows)
    for name, value, against, unit in (
        ("highest window", got.highest, expected.highest, "segments"),
        ("average window", got.average, expected.average, "segments"),
        ("period", got.period_s, expected.period_s, "s"),
    ):
        yield figure(f"exact: reno's {name}", value / against, "", f"{against:.4g} {unit}", Reach(0.95, 1.05))


def native_against_exact() -> Iterator[Figure]:
    """AllGather on mesh4 at 50 Mbit/s on the machine's own kernel, against exact mode."""
    case = {"wan": "mesh4", "rate": 50e6, "size": 2 * 2**20, "count": 6}
    native = statistics.median(times_s(measured(Kernel.NATIVE, "ring", **case)))
    exact = statistics.median(times_s(measured(Kernel.EXACT, "ring", **case)))
    yield figure("native ÷ exact, mesh4, 50 Mbit/s", native / exact, "", "the same job", Reach(0.97, 1.05))


def first_collectives() -> Iterator[Figure]:
    """How long it takes on this machine from a command to the first collective, in either user-mode kernel."""
    for kernel in (Kernel.UML, Kernel.EXACT):
        found = measured(kernel, "ring", **MESH | {"count": 1, "warmup": 0, "size": 4096})
        name = f"{kernel.value}: command to first collective of 4 DCs, a job without a gate"
        yield figure(name, found["first_wall_s"], "s", "wall", Reach(at_most=60))


def quickstart() -> Iterator[Figure]:
    """How long the whole quickstart takes in exact mode on this machine."""
    with tempfile.TemporaryDirectory(prefix="ringroad-bench-") as folder:
        began_at = time.monotonic()
        command = [RINGROAD, "run", QUICKSTART, "--kernel", "exact", "--out", folder]
        status = subprocess.run(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL).returncode
        took_min = (time.monotonic() - began_at) / 60
    if status not in DONE:
        raise RingroadError(f"the quickstart in exact mode ended with exit code {status}")
    yield figure("exact: quickstart, 6 DCs, 4 arms", took_min, "min", "wall", Reach(at_most=15))


@contextmanager
def burning_cores() -> Iterator[None]:
    """Every core computes without a pause while the context lasts."""
    burn = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(burn, stdin=subprocess.DEVNULL) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def held_rate() -> Iterator[Figure]:
    """More UDP than a delayed link carries, in the user-mode kernel in real time: what arrives is the link's rate."""
    found = measured(Kernel.UML, "offered", seconds=10, **DELAYED)
    ratio = found["arrived_bps"] / float(DELAYED["rate"])
    yield figure(
        "uml: rate of one link ÷ set, UDP", ratio, "", "50 Mbit/s, 25 ms, offered 1.2 times that", Reach(0.97, 1.03)
    )


PARTS: tuple[Callable[[], Iterator[Figure]], ...] = (
    delayed_mesh,
    held_rate,
    round_trips,
    renos_sawtooth,
    ring_over_long_links,
    native_against_exact,
    ring_on_a_mesh,
    first_collectives,
    quickstart,
)


def measure(say: Callable[[str], None]) -> Iterator[Figure]:
    """User-mode kernels: is the exact one exact, does it agree with theory, and how long do they take?"""
    yield from figures_of(PARTS, say)
