"""Whatever dies during a run, the run ends soon, names the culprit, keeps its results and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from waiting import eventually

pytestmark = pytest.mark.emulated

STATE = Path("/run/ringroad")
SOON_S = 15

EXPERIMENT = {
    "name": "something dies",
    "wan": "mesh4",
    "trace": {"kind": "constant", "rate": "20mbit"},
    "arms": ["static", "joint"],
    "blocks": 2,
    "payload": "512KiB",
    "collectives": 8,
    "reorder_every": 4,
    "agent": {"source": "feed"},
    "seed": 1,
}


class Run:
    """A `ringroad run` in the background whose parts a test kills."""

    def __init__(self, folder):
        file = folder / "experiment.yaml"
        file.write_text(yaml.safe_dump(EXPERIMENT))
        self.out = folder / "run"
        self.errors = folder / "errors.txt"
        command = [sys.executable, "-m", "testbed.cli", "run", str(file), "--out", str(self.out)]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)

    @property
    def run_id(self):
        return eventually(lambda: self._manifest())["run_id"]

    def _manifest(self):
        file = self.out / "manifest.json"
        assert self.process.poll() is None, self.errors.read_text()
        return json.loads(file.read_text()) if file.exists() else None

    def wait_for_collectives(self, count):
        """Return in the middle of the arm that follows the first `count` collectives."""
        eventually(lambda: self.process.poll() is not None or self.collectives() >= count, 90)
        assert self.process.poll() is None, self.errors.read_text()

    def collectives(self):
        return sum(len(file.read_text().splitlines()) for file in self.out.glob("blocks/*/*/collectives.jsonl"))

    def pid_of(self, name):
        lines = (STATE / self.run_id / "processes.jsonl").read_text().splitlines()
        return next(p["pid"] for p in map(json.loads, lines) if name in p["name"])

    def worker_pids(self):
        launcher = self.pid_of("launcher")
        return [int(pid) for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]

    def ends_soon(self):
        """Its exit code; what it said is in `said`."""
        code = self.process.wait(timeout=SOON_S)
        self.said = self.errors.read_text()
        return code


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path)
    yield run
    if run.process.poll() is None:
        run.process.send_signal(signal.SIGINT)
        run.process.wait(timeout=30)


def left_of(run_id):
    interfaces = [i.name for i in Path("/sys/class/net").iterdir() if i.name.startswith(f"r{run_id}")]
    bridges = subprocess.run(["ovs-vsctl", "--timeout=5", "list-br"], capture_output=True, text=True).stdout.split()
    mark = f"RINGROAD_RUN={run_id}".encode()
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                processes.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    state = [str(STATE / run_id)] if (STATE / run_id).exists() else []
    return interfaces + [b for b in bridges if b.startswith(f"r{run_id}")] + processes + state


def assert_ended_well(run, run_id, code, *, culprit):
    assert code == 4, run.said
    assert "Traceback" not in run.said.split(culprit)[0]
    assert culprit in run.said
    assert run.collectives() >= 2
    assert (run.out / "summary.json").exists()
    assert left_of(run_id) == []


def test_a_worker_that_dies_is_named_with_its_dc(run):
    run.wait_for_collectives(9)
    run_id = run.run_id
    os.kill(run.worker_pids()[2], signal.SIGKILL)
    assert_ended_well(run, run_id, run.ends_soon(), culprit="rank 2 (tokyo)")


def test_a_launcher_that_dies_is_named(run):
    run.wait_for_collectives(9)
    run_id = run.run_id
    os.kill(run.pid_of("launcher"), signal.SIGKILL)
    assert_ended_well(run, run_id, run.ends_soon(), culprit="workers' launcher")


def test_a_controller_that_dies_is_named_and_the_end_of_its_log_quoted(run):
    run.wait_for_collectives(9)
    run_id = run.run_id
    os.kill(run.pid_of("controller"), signal.SIGKILL)
    assert_ended_well(run, run_id, run.ends_soon(), culprit="controller")
    log = (run.out / "logs" / "controller.log").read_text().splitlines()
    assert any(line.strip() in run.said for line in log[-5:])  # its last words may come after the quotation


def test_a_controllers_worker_that_dies_is_replaced_and_the_run_goes_on(run):
    run.wait_for_collectives(9)
    run_id = run.run_id
    watchdog = run.pid_of("controller")
    (worker,) = Path(f"/proc/{watchdog}/task/{watchdog}/children").read_text().split()
    os.kill(int(worker), signal.SIGKILL)
    code = run.process.wait(timeout=120)
    run.said = run.errors.read_text()
    assert code in (0, 3), run.said
    events = [json.loads(line) for f in run.out.glob("blocks/*/*/controller_events.jsonl") for line in f.open()]
    assert [e["cause"] for e in events if e["event"] == "restart"] == ["killed by SIGKILL"]
    assert left_of(run_id) == []


def test_an_ovs_vswitchd_that_dies_is_named(run):
    run.wait_for_collectives(9)
    run_id = run.run_id
    pid = int(Path("/run/openvswitch/ovs-vswitchd.pid").read_text())
    try:
        os.kill(pid, signal.SIGKILL)
        code = run.ends_soon()
    finally:
        subprocess.run(["service", "openvswitch-switch", "restart"], capture_output=True, timeout=60, check=True)
    assert_ended_well(run, run_id, code, culprit="ovs-vswitchd")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_an_interrupted_run_keeps_what_it_has_and_cleans_up(run, number):
    run.wait_for_collectives(9)
    run_id = run.run_id
    os.kill(run.process.pid, number)
    assert run.ends_soon() == 130, run.said
    assert json.loads((run.out / "summary.json").read_text())["arms"]
    assert left_of(run_id) == []


def test_a_run_that_is_killed_outright_is_cleaned_up_by_clean_and_by_nothing_before(run):
    run.wait_for_collectives(9)
    run_id = run.run_id
    run.process.kill()
    run.process.wait()
    assert left_of(run_id) != []
    done = subprocess.run([sys.executable, "-m", "testbed.cli", "clean"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert left_of(run_id) == []
    # what it had measured can still be reported
    report = [sys.executable, "-m", "testbed.cli", "report", str(run.out)]
    assert subprocess.run(report, capture_output=True, timeout=60).returncode in (0, 3)


def test_a_second_run_is_told_who_holds_the_machine(run, tmp_path):
    run.wait_for_collectives(1)
    command = [sys.executable, "-m", "testbed.cli", "run", str(tmp_path / "experiment.yaml"), "--out"]
    before = time.monotonic()
    second = subprocess.run([*command, str(tmp_path / "second")], capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert run.run_id in second.stderr and str(run.process.pid) in second.stderr
    assert time.monotonic() - before < 30
    assert run.process.poll() is None
