"""`ringroad perf` as a person runs it: rows, the same as JSON, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.emulated

COMMAND = [sys.executable, "-m", "testbed.cli", "perf"]


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
