"""Runs on the exact kernel: against limits to the permille, the same again to the digit, and a path that moves."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from testbed.kernels import exactkernel, stillness
from testbed.kernels.boot import KernelError
from testbed.kernels.choosing import Choice, Kernel
from testbed.kernels.relaunch import carry_out
from testbed.kernels.virtualclock import SpinWatch

ROOT = Path(__file__).parents[2]
HANGING_S = 600

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(HANGING_S),
]


@pytest.fixture(scope="module", autouse=True)
def kernel():
    """Built before the tests, or they fail: never left out in silence."""
    return exactkernel.require()


def measured(folder, monkeypatch, *arguments):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "scripts"))
    file = folder / "measured.json"
    command = [sys.executable, "-m", "benchmarks.onkernel", str(file), *map(str, arguments)]
    assert carry_out(Choice(Kernel.EXACT, "asked for"), command, writable=[folder]) == 0
    return json.loads(file.read_text())


def test_a_ring_takes_what_its_links_take(tmp_path, monkeypatch):
    ring = ("ring", "--wan=mesh4", "--rate=100e6", "--size=2097152", "--count=2")

    found = measured(tmp_path, monkeypatch, *ring)

    # 3 · 2 MiB · 8 bit ÷ 100 Mbit/s = 0.50332 s, and 0.75 % of headers
    times_s = [end - start for start, end in found["collectives"]]
    assert times_s == pytest.approx([0.50332 * 1.0075] * 2, rel=0.01)


def test_chance_inside_is_that_of_the_seed(tmp_path):
    def drawn(seed):
        file = tmp_path / f"drawn-{seed}"
        command = ["dd", "if=/dev/urandom", f"of={file}", "bs=16", "count=1", "status=none"]
        assert carry_out(Choice(Kernel.EXACT, "asked for"), command, writable=[tmp_path], seed=seed) == 0
        return file.read_bytes()

    seven = drawn(7)

    assert drawn(7) == seven
    assert drawn(8) != seven
    assert drawn(None) == drawn(1) != seven


def test_a_round_trip_takes_its_delays(tmp_path, monkeypatch):
    found = measured(tmp_path, monkeypatch, "ping", "--delay=0.010", "--rate=1e9", "--count=20")

    assert found["round_trips_s"] == pytest.approx([0.020] * 20, abs=50e-6)


def test_a_path_moves_and_all_that_is_recorded_is_the_same_again_to_the_digit(tmp_path):
    experiment = tmp_path / "reroute.yaml"
    experiment.write_text(
        "name: reroute\nwan: mesh4\n"
        "trace: {kind: steps, steps: [{at: 1s, link: tokyo-oregon, rate: 5mbit}]}\n"
        "arms: [static, joint]\nblocks: 1\npayload: 256KiB\ncollectives: 3\npacing: {every: 2s}\nwarmup: 0\n"
        "reorder_every: 2\n"
    )
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        command = [sys.executable, "-m", "testbed.cli", "run", str(experiment), "--kernel", "exact", "--out", str(out)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode in (0, 3), done.stderr

    medians_s = {
        name: arm["median_s"] for name, arm in json.loads((first / "summary.json").read_text())["arms"].items()
    }
    # the narrow link makes a shard take ten times as long and more; the path around it does not cross it
    assert medians_s["joint"] < medians_s["static"] / 5
    assert json.loads((first / "manifest.json").read_text())["ran_on"]["kernel"] == "exact"
    records = sorted(path.relative_to(first) for path in first.rglob("*.jsonl"))
    assert len(records) > 4
    assert [path for path in records if (first / path).read_bytes() != (second / path).read_bytes()] == []


def test_a_program_that_spins_is_named_and_ends_the_run(monkeypatch):
    monkeypatch.setattr(stillness, "SpinWatch", partial(SpinWatch, still_s=10))
    command = [sys.executable, "-c", "while True: pass"]

    with pytest.raises(KernelError) as caught:
        carry_out(Choice(Kernel.EXACT, "asked for"), command, writable=[])

    assert "virtual time has stood still at 40." in caught.value.message
    assert "python3 (pid " in caught.value.message or "python (pid " in caught.value.message
    assert "last system call" in caught.value.message
