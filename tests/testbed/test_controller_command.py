"""`ringroad controller` as a person runs it: what it prints, that Ctrl-C ends it, and what it refuses. No root."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from controller.client import ControllerClient
from controller.settings import STACKS

COMMAND = [sys.executable, "-m", "testbed.cli", "controller"]
ENDS_WITHIN_S = 20.0


def test_it_starts_on_a_wan_of_a_hundred_sites_and_four_hundred_links(tmp_path: Path):
    # Each site in a circle to four that come after it: many paths of equal length.
    names = [f"s{number}" for number in range(100)]
    sites = "".join(f"  - {{name: {name}}}\n" for name in names)
    ends = [(name, names[(number + step) % 100]) for number, name in enumerate(names) for step in (1, 2, 3, 5)]
    links = "".join(f"  - {{between: [{a}, {b}], rate: 50mbit}}\n" for a, b in ends)
    (tmp_path / "wan.yaml").write_text(f"name: hundred\nsites:\n{sites}links:\n{links}")
    path = tmp_path / "c.sock"
    command = [*COMMAND, str(tmp_path / "wan.yaml"), "--listen", "0", "--socket", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        commands = [next(process.stdout) for _ in range(100)]
        with ControllerClient(path) as client:
            view = client.view()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=ENDS_WITHIN_S) and process.returncode == 0

    assert commands[0].startswith("ovs-vsctl set bridge ")
    assert len(view.routes) == 9900
    assert len(view.tunnels["s0", "s50"]) == 4


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_it_serves_until_it_is_told_to_end_and_leaves_nothing(tmp_path: Path, stack: str, number: int):
    path = tmp_path / "c.sock"
    arguments = ["mesh4", "--listen", "0", "--http", "0", "--stack", stack, "--policy", "shortest", "--socket", path]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        commands = [next(process.stdout) for _ in range(7 * 4)]
        with ControllerClient(path) as client:
            status = client.status()
        with urllib.request.urlopen(f"http://127.0.0.1:{status.http_port}/v1/topology", timeout=10) as answer:
            topology = json.load(answer)
        process.send_signal(number)
        code = process.wait(ENDS_WITHIN_S)

    assert (status.stack, status.policy, status.missing) == (stack, "shortest", (1, 2, 3, 4))
    assert topology["wan"] == "mesh4"
    assert f"tcp:127.0.0.1:{status.port}" in "".join(commands)
    assert commands[0].startswith("ovs-vsctl set bridge <bridge of ")
    assert code == 0
    assert not path.exists()
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said
    folder = re.search(r"/\S*ringroad-controller-\S+", said)
    assert folder is None or not Path(folder[0]).exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sixx"], "did you mean 'six'"),
        (["six", "--policy", "best"], "no such path policy"),
        (["six", "--stack", "nox"], "stack is wrong"),
        (["six", "--http", "70000"], "http_port is wrong"),
        (["six", "--wiring", "/none.yaml"], "no such file"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words_before_anything_starts(arguments: list[str], complaint: str):
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_an_error_that_says_so(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run([*COMMAND, "mesh4", "--listen", str(port)], capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert f"cannot listen on port {port}" in done.stderr
