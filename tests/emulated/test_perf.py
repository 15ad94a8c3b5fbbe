"""`ringroad perf` on an emulated WAN: every collective against its limit, the command as a person runs it, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.emulation.qdisc import BURST_S
from testbed.launching import launcher
from testbed.perf.rows import Row
from testbed.perf.session import SLACK, measure, plan_for
from topologies import EdgeProperties
from topologies.builtins import builtin
from workers.client import WorkersClient
from workers.perfjob import COLLECTIVES, GLOO, PLANNABLE, RING, Perf

pytestmark = pytest.mark.emulated

MIB = 2**20
COMMAND = [sys.executable, "-m", "testbed.cli", "perf"]


@pytest.fixture(scope="module")
def up() -> Iterator[tuple[Testbed, WorkersClient]]:
    with Testbed(builtin("mesh4"), controller=ControllerSettings(policy="shortest")) as bed:
        socket = bed.state / "workers.sock"
        with launcher(bed, socket, bed.log_folder / "workers.log"), WorkersClient(socket) as client:
            yield bed, client


def rows(bed: Testbed, client: WorkersClient, perf: Perf, order: str = "listed") -> list[Row]:
    found: list[Row] = []
    measure(bed, client, plan_for(bed, perf, order), found.append)
    return found


@pytest.mark.parametrize(
    ("collective", "schedule"), [*((c, "ring") for c in COLLECTIVES), *((c, "trees") for c in sorted(PLANNABLE))]
)
def test_no_collective_beats_its_limit_and_every_element_is_right(
    up: tuple[Testbed, WorkersClient], collective: str, schedule: str
):
    implementations = (RING, GLOO) if schedule == "ring" else (RING,)
    perf = Perf(collective, (MIB,), iterations=3, implementations=implementations, schedule=schedule)
    (row,) = rows(*up, perf)
    for times in filter(None, (row.ours, row.gloo)):
        assert times.wrong == 0
        # what a link lets through at once after a pause, and clocks read around system calls
        assert min(times.times_s) >= row.limit_s * (1 - SLACK) - BURST_S
    assert 0 < row.limit_s < row.ours.mean_s * (1 + SLACK) + BURST_S


def test_every_collective_takes_the_direction_in_which_links_are_fast(up: tuple[Testbed, WorkersClient]):
    bed, _ = up
    # given links of 80 Mbit/s along one ring and of 20 against it and across
    dcs, ring = bed.wan.dcs, (0, 2, 1, 3)
    fast = {(dcs[a], dcs[b]) for a, b in zip(ring, (*ring[1:], ring[0]), strict=True)}
    bed.shape_many({edge: EdgeProperties(80e6 if edge in fast else 20e6) for edge in bed.wan.edges})
    # then the best ring is that one, and all that go round a ring go round it: 3/4 of 1 MiB at 80 Mbit/s, or twice
    for collective, hops in (("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_reduce", 1.5)):
        (row,) = rows(*up, Perf(collective, (MIB,), iterations=3), order="best")
        assert row.ours.median_s < 2 * hops * 8 * MIB / 80e6, collective
    bed.reset()


def test_the_command_prints_rows_and_writes_the_same_as_json(tmp_path: Path):
    file = tmp_path / "out.json"
    arguments = ["all_reduce", "-b", "64K", "-e", "1M", "-f", "16", "-n", "2", "--compare", "gloo", "-J", str(file)]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 3), done.stderr  # 3: this machine is busy
    measured = [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]
    assert [row[:5] for row in measured] == [[str(s), str(s // 4), "float", "sum", "-1"] for s in (2**16, 2**20)]
    assert "# Wrong elements       : 0 OK" in done.stdout
    result = json.loads(file.read_text())
    assert result["complete"] and [row["size_bytes"] for row in result["rows"]] == [2**16, 2**20]
    assert all(len(row["out_of_place"]["times_s"]) == len(row["gloo"]["times_s"]) == 2 for row in result["rows"])
    assert result["trustworthy"] == (done.returncode == 0)


def test_an_interrupted_command_keeps_its_rows_and_returns_130(tmp_path: Path):
    file = tmp_path / "out.json"
    arguments = ["broadcast", "-b", "64K", "-e", "1G", "-f", "64", "-n", "2", "--no-gate", "-J", str(file)]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.strip().startswith("65536 ") for line in process.stdout)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
    result = json.loads(file.read_text())
    assert not result["complete"]
    assert [row["size_bytes"] for row in result["rows"]][:1] == [65536]
