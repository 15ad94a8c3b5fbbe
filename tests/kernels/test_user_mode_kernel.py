"""A command inside Debian's user-mode kernel: what it can see and write, how it ends, and that nothing stays behind."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import kernelguests
import pytest
from waiting import eventually

from testbed.kernels import images
from testbed.kernels.choosing import Kernel
from topologies.errors import RingroadError

pytestmark = [
    pytest.mark.kernel,
]

LOOK_AROUND = """
echo "$GREETING"; echo problems >&2
pwd
touch "$1/kept" && echo 'the run folder is writable'
touch /etc/denied 2>/dev/null || echo 'the rest is not'
touch /tmp/private && echo '/tmp is its own'
ovs-vsctl add-br b -- set bridge b datapath_type=system && echo 'Open vSwitch in the kernel'
tc qdisc add dev lo root netem delay 20ms && ping -c 1 -q 127.0.0.1 | grep -q '= [4-9][0-9][.]' && echo 'netem delays'
python3 -c 'import json; print(json.load(open("/run/ringroad-job.json"))["kernel"])'
exit 7
"""


@pytest.fixture(scope="module")
def looked_around(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder with spaces, ünd more")
    command = ["sh", "-c", LOOK_AROUND, "sh", str(folder)]
    return folder, kernelguests.run("uml", folder, command, cwd=folder, env=kernelguests.environment(GREETING="hello"))


def test_a_command_has_its_folder_its_environment_netem_and_a_kernel_datapath(looked_around):
    folder, done = looked_around
    assert done.stdout.splitlines() == [
        "hello",
        str(folder),
        "the run folder is writable",
        "the rest is not",
        "/tmp is its own",
        "Open vSwitch in the kernel",
        "netem delays",
        "uml",
    ], done.stderr


def test_its_exit_code_and_both_its_streams_come_out_and_no_noise_of_the_kernel(looked_around):
    _, done = looked_around
    assert done.returncode == 7
    said = [line for line in done.stderr.splitlines() if not line.startswith("vm.max_map_count: ")]
    assert said == ["problems"]


def test_what_it_wrote_is_kept_with_the_kernels_console_and_nothing_of_its_tmp(looked_around):
    folder, _ = looked_around
    assert {path.name for path in folder.iterdir()} == {"kept", "kernel.log"}
    assert not Path("/tmp/private").exists()
    assert not Path("/etc/denied").exists()


def test_ctrl_c_reaches_the_command_and_its_answer_comes_out(tmp_path):
    script = "trap 'echo cleaned up; exit 130' INT; echo begun; while :; do sleep 0.1; done"
    process = kernelguests.start("uml", tmp_path, ["sh", "-c", script])
    state_folder = kernelguests.state_folder_of(process.pid)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=100)
    assert (output, process.returncode) == ("cleaned up\n", 130), errors
    assert not state_folder.exists()
    assert kernelguests.processes_of(state_folder) == []


def test_a_kernel_whose_maker_is_killed_goes_at_once_and_cleaning_removes_its_state(tmp_path):
    process = kernelguests.start("uml", tmp_path, ["sh", "-c", "echo begun; sleep 1000"])
    state_folder = kernelguests.state_folder_of(process.pid)
    assert process.stdout.readline() == "begun\n"
    process.kill()
    process.communicate()
    eventually(lambda: kernelguests.processes_of(state_folder) == [], 20)
    cleaned = subprocess.run([sys.executable, "-m", "testbed.cli", "clean"], capture_output=True, text=True, timeout=60)
    assert f"removed state of run {state_folder.name}" in cleaned.stdout
    assert not state_folder.exists()


def test_a_kernel_that_dies_is_an_error_that_quotes_its_console(tmp_path):
    done = kernelguests.run(
        "uml", tmp_path, ["sh", "-c", "echo begun; sleep 1; echo c >/proc/sysrq-trigger; sleep 100"]
    )
    assert done.returncode == 4
    assert done.stdout == "begun\n"
    assert "the user-mode kernel (pid" in done.stderr
    assert "sysrq triggered crash" in (tmp_path / "kernel.log").read_text(errors="replace")


def test_a_full_disk_is_told_to_the_program_that_writes(tmp_path):
    # given a folder of 2 MB, in a mount namespace of the test's own
    mounting = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounting, str(tmp_path), sys.executable, "-c", kernelguests.PROGRAM]
    command += ["uml", str(tmp_path), "dd", "if=/dev/zero", f"of={tmp_path}/much", "bs=1M", "count=8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr


def test_a_program_that_is_no_kernel_is_refused_with_the_remedy(tmp_path, monkeypatch):
    fake = tmp_path / "linux.uml"
    fake.write_text("#!/bin/sh\necho not a version at all\n")
    fake.chmod(0o755)
    monkeypatch.setattr(images, "DEBIAN_BINARY", fake)
    with pytest.raises(RingroadError, match="is no user-mode kernel") as caught:
        images.image(Kernel.UML)
    assert "apt-get install user-mode-linux" in caught.value.remedy


def test_a_kernel_that_is_not_installed_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "DEBIAN_BINARY", tmp_path / "nothing")
    monkeypatch.setattr(images.exactkernel, "find", lambda: None)
    assert "apt-get install user-mode-linux" in images.why_not(Kernel.UML)


REROUTE = """
name: delayed reroute
wan:
  name: triangle
  defaults: {rate: 20mbit, delay: 10ms}
  sites: [{name: a}, {name: b}, {name: c}]
  links:
    - {between: [a, b], delay: 15ms, jitter: 1ms, loss: 0.5%, reverse: {delay: 5ms, jitter: 0s, loss: 0, reorder: 10%}}
    - {between: [b, c]}
    - {between: [a, c]}
faults:
  - {at: 1s, kind: down, link: b-c, for: 60s}
arms: [wan]
blocks: 1
payload: 256KiB
collectives: 8
pacing: {every: 700ms}
seed: 1
"""


@pytest.fixture(scope="module")
def rerouted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "experiment.yaml").write_text(REROUTE)
    command = [sys.executable, "-m", "testbed.cli", "run", str(folder / "experiment.yaml"), "--json"]
    command += ["--out", str(folder / "out"), "--kernel", "uml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode in (0, 3), done.stderr
    return folder / "out", done


@pytest.mark.timeout(300)
def test_a_run_inside_says_which_kernel_it_ran_on_and_its_report_is_made_outside(rerouted):
    folder, done = rerouted
    assert "kernel: uml (a user-mode kernel, in real time): asked for" in done.stderr
    ran_on = json.loads((folder / "manifest.json").read_text())["ran_on"]
    assert ran_on["kernel"] == "uml"
    assert ran_on["mode"] == "a user-mode kernel, in real time"
    assert ran_on["version"] == images.image(Kernel.UML).version
    assert json.loads(done.stdout) == json.loads((folder / "summary.json").read_text())
    assert (folder / "completion_time.png").exists()


def test_idle_links_delay_lose_and_reorder_each_way_as_they_are_set_to(rerouted):
    folder, _ = rerouted
    edges = {tuple(edge["edge"]): edge for edge in json.loads((folder / "gate.json").read_text())["figures"]["edges"]}
    properties = edges["a", "b"]["properties"]
    assert (properties["delay_s"], properties["jitter_s"]) == (0.015, 0.001)
    assert properties["loss"] == pytest.approx(0.005, abs=1e-9)
    assert edges["b", "a"]["properties"]["reorder"] == pytest.approx(0.1, abs=1e-9)
    # b → a: of 200 packets, 20 wait for no delay; 4 to 45 is what chance allows in all but one of a million times
    assert 4 <= edges["b", "a"]["overtook"] <= 45
    assert edges["b", "c"]["overtook"] == 0


def test_a_link_that_goes_down_inside_moves_the_paths_and_every_collective_is_verified(rerouted):
    folder, _ = rerouted
    records = folder / "blocks" / "1" / "wan"
    collectives = [json.loads(line) for line in (records / "collectives.jsonl").read_text().splitlines()]
    assert [collective["index"] for collective in collectives] == list(range(8))
    assert all(collective["verified"] for collective in collectives)
    events = [json.loads(line) for line in (records / "reconfigurations.jsonl").read_text().splitlines()]
    assert "port_status" in {event["cause"] for event in events}
