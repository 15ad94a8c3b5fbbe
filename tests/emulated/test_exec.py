"""`ringroad exec` end to end: somebody's script in the DCs of a real emulated WAN, its output, its end, its records."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually

from testbed.emulation.state import start_ticks

pytestmark = pytest.mark.emulated

ROOT = Path(__file__).parents[2]
DCS = ("frankfurt", "oregon", "tokyo", "virginia")
SOON_S = 30

TRACE = "{kind: redraw, every: 200ms, low: 30mbit, high: 60mbit}"
"""Moves all the time; what is asserted does not depend on how fast it is."""


def command(folder, *arguments, script=None, options=()):
    if script is not None:
        (folder / "script.py").write_text(script)
        arguments = ("python", str(folder / "script.py"), *arguments)
    own = ["--no-gate", "--out", str(folder / "run"), "--timeout", "3min", *options]
    return [sys.executable, "-m", "testbed.cli", "exec", *own, "--", *arguments]


def ringroad_exec(folder, *arguments, **given):
    given = command(folder, *arguments, **given)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(given, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


STOCK = """
import sys, time, torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(9):
    began = time.monotonic()
    tensor = torch.full((50_000,), float(rank))
    dist.all_reduce(tensor)
    assert (tensor == sum(range(dist.get_world_size()))).all()
    print(f"step {step}  {time.monotonic() - began:.3f} s", flush=True)
print("backend", dist.get_backend(), "in world of", dist.get_world_size(), file=sys.stderr, flush=True)
dist.barrier()
dist.destroy_process_group()
import os
os._exit(0)
"""
"""As somebody wrote it for torchrun: nothing of Ringroad is in it."""


@pytest.fixture(scope="module")
def two_arms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arms")
    options = ("--arm", "static,joint", "--workers-per-dc", "2", "--reorder-every", "3", "--policy", "random")
    done = ringroad_exec(folder, script=STOCK, options=(*options, "--trace", TRACE, "--json"))
    assert done.returncode == 0, done.stderr
    return done, folder / "run"


def test_a_script_for_stock_gloo_runs_on_rings_in_every_dc(two_arms):
    done, folder = two_arms
    for arm in ("static", "joint"):
        for rank in range(8):
            said = (folder / "logs" / f"block1-{arm}" / f"rank{rank}.log").read_text()
            assert "backend ring in world of 8" in said
    for rank in range(8):
        assert f"[{rank} {DCS[rank // 2]}] backend ring in world of 8" in done.stderr


def test_the_summary_compares_the_arms_by_the_steps_that_were_printed(two_arms):
    done, folder = two_arms
    summary = json.loads(done.stdout)
    assert summary == json.loads((folder / "summary.json").read_text())
    assert summary["exit_code"] == 0
    assert {arm: figures["steps"] for arm, figures in summary["arms"].items()} == {"static": 8, "joint": 8}
    assert summary["arms"]["static"]["speedup"] == pytest.approx(1)
    assert "step" in (folder / "summary.txt").read_text()


def test_every_collective_is_on_record_and_none_is_faster_than_the_links_allow(two_arms):
    _, folder = two_arms
    for arm in ("static", "joint"):
        collectives = lines(folder / "blocks" / "1" / arm / "collectives.jsonl")
        assert [(c["kind"], c["index"], c["size_bytes"]) for c in collectives] == [
            ("all_reduce", index, 200_000) for index in range(9)
        ]
        assert all(0 < c["limit_fraction"] < 1 / 0.98 for c in collectives)


def test_the_ring_of_the_joint_arm_enters_each_dc_once_and_the_static_one_stays(two_arms):
    _, folder = two_arms
    still = lines(folder / "blocks" / "1" / "static" / "collectives.jsonl")
    assert {tuple(c["order"]) for c in still} == {tuple(range(8))}
    assert lines(folder / "blocks" / "1" / "static" / "ring_changes.jsonl") == []
    changes = lines(folder / "blocks" / "1" / "joint" / "ring_changes.jsonl")
    assert [change["before_collective"] for change in changes] == [3, 6]
    assert all(change["limit_bps"] > 0 and change["rate_bps"] > 0 for change in changes)
    moved = lines(folder / "blocks" / "1" / "joint" / "collectives.jsonl")[-1]["order"]
    assert moved == [rank for dc in moved[::2] for rank in (dc, dc + 1)]
    assert moved != list(range(8))


def test_the_wan_moves_from_when_all_have_joined(two_arms):
    _, folder = two_arms
    for arm in lines(folder / "arms.jsonl"):
        changes = lines(folder / "blocks" / "1" / arm["arm"] / "changes.jsonl")
        assert [change["planned_s"] for change in changes[:2]] == [0, 0.2]
        collectives = lines(folder / "blocks" / "1" / arm["arm"] / "collectives.jsonl")
        assert arm["launched_at"] < arm["started_at"] < collectives[0]["end"]


def test_a_report_made_again_says_the_same(two_arms):
    done, folder = two_arms
    (folder / "summary.json").unlink()
    again = subprocess.run(
        [sys.executable, "-m", "testbed.cli", "report", str(folder), "--json"], capture_output=True, text=True
    )
    assert again.returncode == 0
    assert json.loads(again.stdout) == json.loads(done.stdout)


def test_a_rank_that_fails_is_named_and_its_exit_code_is_that_of_the_command(tmp_path):
    # given a program of no Python at all, which fails in one DC and would run on in the others
    script = 'echo here; [ "$RANK" = 2 ] && { echo last words >&2; exit 7; }; exec sleep 100'
    options = ("--arm", "static", "--grace", "0.5", "--trace-from", "start")
    done = ringroad_exec(tmp_path, "sh", "-c", script, options=options)
    # then
    assert done.returncode == 7, done.stderr
    assert "rank 2 (tokyo) ended first: exit code 7" in done.stderr
    assert "last words" in done.stderr
    assert sorted(done.stdout.splitlines()[:5]) == sorted(
        [*(f"[{rank} {dc}] here" for rank, dc in enumerate(DCS)), "[2 tokyo] last words"]
    )
    (arm,) = lines(tmp_path / "run" / "arms.jsonl")
    assert arm["exit_code"] == 7
    assert sum(rank["by_us"] for rank in arm["ranks"]) == 3


def test_gloo_stays_gloo_where_that_is_asked(tmp_path):
    script = "import torch.distributed as d, os; d.init_process_group('gloo'); print(d.get_backend()); os._exit(0)"
    done = ringroad_exec(tmp_path, script=script, options=("--arm", "static", "--stock-gloo"))
    assert done.returncode == 0, done.stderr
    assert sum(line.endswith("] gloo") for line in done.stdout.splitlines()) == 4


def test_no_daemon_outlives_the_program(tmp_path):
    # given a program that leaves its session in one DC, and takes off what marks it in another
    script = """
    case $RANK in
        0) setsid sleep 1000 >/dev/null 2>&1 & echo $! >daemon0;;
        1) env -i setsid sleep 1000 >/dev/null 2>&1 & echo $! >daemon1;;
    esac
    sleep 0.5
    """
    done = ringroad_exec(tmp_path, "sh", "-c", script, options=("--arm", "static", "--trace-from", "start"))
    # then
    assert done.returncode == 0, done.stderr
    for daemon in ("daemon0", "daemon1"):
        assert start_ticks(int((tmp_path / daemon).read_text())) is None


class Background:
    """A program that says so when it is interrupted, running in every DC."""

    SCRIPT = "trap 'echo heard; exit 0' INT TERM; echo up; while :; do sleep 0.1; done"

    def __init__(self, folder):
        self.folder = folder
        self.errors = (folder / "errors").open("w+")
        given = command(folder, "sh", "-c", self.SCRIPT, options=("--arm", "static"))
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(given, env=environment, stdout=subprocess.DEVNULL, stderr=self.errors)
        eventually(lambda: self.process.poll() is not None or self.logs().count("up") == 4, 90)
        assert self.process.poll() is None, (folder / "errors").read_text()

    def logs(self):
        return " ".join(file.read_text() for file in self.folder.glob("run/logs/block1-static/rank*.log"))


@pytest.fixture
def background(tmp_path):
    started = Background(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.send_signal(signal.SIGINT)
        started.process.wait(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_and_what_there_is_is_kept(background, number):
    background.process.send_signal(number)
    assert background.process.wait(timeout=SOON_S) == 130
    assert background.logs().count("heard") == 4
    assert json.loads((background.folder / "run" / "summary.json").read_text())["run_id"]


def test_ranks_die_with_ringroad_and_clean_removes_the_rest(background):
    # given
    manifest = json.loads((background.folder / "run" / "manifest.json").read_text())
    mark = f"RINGROAD_RUN={manifest['run_id']}".encode()
    # when
    background.process.kill()
    background.process.wait()
    # then no rank runs on, and after `clean` nothing does
    eventually(lambda: b"trap 'echo heard" not in b" ".join(commands_of(mark)))
    done = subprocess.run([sys.executable, "-m", "testbed.cli", "clean"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert commands_of(mark) == []


def commands_of(mark):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return found
