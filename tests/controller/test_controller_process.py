"""The controller as a process, without switches: what it opens, how it ends, what nonsense does to it. No root."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from wans import wan_of, wiring_of

from controller.client import ControllerClient, EventStream, wait_listening
from controller.settings import STACKS, ControllerConfig, ControllerSettings, save_config
from topologies import wire

WAN = wan_of({"ab": 100e6, "ac": 100e6, "bc": 100e6})
ENDS_WITHIN_S = 10.0


@contextmanager
def _running(folder: Path, **settings: object) -> Iterator[tuple[subprocess.Popen, Path]]:
    config = ControllerConfig(WAN, wiring_of(WAN), folder / "c.sock", ControllerSettings(**settings))
    save_config(config, folder / "c.json")
    command = [sys.executable, "-m", "controller", "--config", str(folder / "c.json")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        yield process, config.socket
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(params=STACKS)
def controller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[subprocess.Popen, Path, int]]:
    with _running(tmp_path, stack=request.param) as (process, path):
        yield process, path, wait_listening(process)


def test_it_listens_on_loopback_at_a_port_of_the_kernels_choice_and_on_a_socket_of_its_owner(controller):
    process, path, port = controller

    with ControllerClient(path) as client:
        assert client.status().port == port
    assert _listening_addresses(process.pid) == {("127.0.0.1", port)}
    assert path.stat().st_mode & 0o777 == 0o600


def test_sigterm_ends_it_cleanly(controller):
    process, path, _ = controller

    process.terminate()

    assert process.wait(ENDS_WITHIN_S) == 0
    assert not path.exists()


def test_waiting_for_switches_that_never_come_names_them(controller):
    _, path, _ = controller

    with ControllerClient(path) as client, pytest.raises(wire.WireError, match=r"missing datapath ids \[1, 2, 3\]"):
        client.wait_ready(0.1)


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\xff\xfe garbage\n",
        b"[1, 2]\n",
        b"[" * 100_000 + b"\n",
        b"x" * (wire.MAX_LINE_BYTES + 2**17),
    ],
    ids=["bytes", "list", "deep", "endless"],
)
def test_who_sends_no_messages_is_cut_off_and_nobody_else(controller, line: bytes):
    _, path, _ = controller
    with ControllerClient(path) as client, socket.socket(socket.AF_UNIX) as vandal:
        vandal.connect(str(path))
        vandal.settimeout(ENDS_WITHIN_S)

        _send_all_that_is_taken(vandal, line)

        assert _ends(vandal)
        assert client.status().missing == (1, 2, 3)


def test_a_crowd_is_turned_away_and_who_was_there_is_still_served(controller):
    _, path, _ = controller
    crowd = []
    with ControllerClient(path) as client:
        for _ in range(400):
            crowd.append(socket.socket(socket.AF_UNIX))
            crowd[-1].connect(str(path))
        crowd[-1].settimeout(ENDS_WITHIN_S)
        assert crowd[-1].recv(1) == b""
        assert client.status().missing == (1, 2, 3)
        for connection in crowd:
            connection.close()
    with ControllerClient(path) as late:
        assert late.status().missing == (1, 2, 3)


@pytest.mark.parametrize(
    ("request_fields", "complaint"),
    [
        ({"op": "fly"}, "unknown op 'fly'"),
        ({}, "unknown op"),
        ({"op": "capacity"}, "malformed request: KeyError"),
        ({"op": "capacity", "edges": [["a", "b"]], "happened_at": 0}, "malformed request"),
        ({"op": "capacity", "edges": [["a", "z", 1e6]], "happened_at": 0}, "no site 'z'"),
        ({"op": "capacity", "edges": [["a", "b", -1]], "happened_at": 0}, "not negative"),
        ({"op": "reset", "policy": "best"}, "no such path policy"),
        ({"op": "pin", "pair": ["a", "b"], "path": "ab"}, "a path is a list of sites"),
        ({"op": "pin", "pair": ["a"], "path": ["a", "b"]}, "malformed request"),
        ({"op": "unpin", "pair": ["a", "b"]}, "not ready"),
        ({"op": "wait_ready", "timeout_s": "soon"}, "malformed request"),
    ],
)
def test_a_request_that_makes_no_sense_is_answered_in_words_and_the_connection_lives_on(
    request_fields, complaint, controllers_socket: Path
):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(controllers_socket))
        connection.settimeout(ENDS_WITHIN_S)
        replies = wire.messages(connection)

        wire.send(connection, request_fields)
        assert complaint in next(replies)["error"]

        wire.send(connection, {"op": "status"})
        assert next(replies)["ready"] is False


@pytest.fixture(scope="module")
def controllers_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with _running(tmp_path_factory.mktemp("c")) as (process, path):
        wait_listening(process)
        yield path


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        random.Random(7).randbytes(4096),
        b"\x04\x00\x00\x08\x00\x00\x00\x01" + b"\xff" * 64,
        b"\x04",
    ],
    ids=["http", "random", "hello, then nonsense", "half a header"],
)
def test_garbage_on_the_openflow_port_harms_nothing(controller, garbage: bytes):
    _, path, port = controller
    with socket.create_connection(("127.0.0.1", port)) as vandal:
        vandal.sendall(garbage)
        with suppress(OSError):  # It may have been cut off by now.
            vandal.shutdown(socket.SHUT_WR)
        vandal.settimeout(ENDS_WITHIN_S)
        assert _ends(vandal)

    with ControllerClient(path) as client:
        assert client.status().connected == ()


def test_a_socket_left_behind_by_a_killed_controller_is_taken_over(tmp_path: Path):
    with _running(tmp_path) as (process, path):
        wait_listening(process)
        process.kill()
        process.wait()
        assert path.exists()

    with _running(tmp_path) as (process, path):
        wait_listening(process)
        with ControllerClient(path) as client:
            assert not client.status().ready


def test_a_second_controller_on_the_same_socket_is_refused_and_the_first_unharmed(tmp_path: Path):
    with _running(tmp_path) as (first, path):
        wait_listening(first)

        with _running(tmp_path) as (second, _):
            assert second.wait(ENDS_WITHIN_S) == 1

        assert "another controller listens at" in (tmp_path / "log").read_text()
        with ControllerClient(path) as client:
            assert not client.status().ready


def test_a_subscriber_that_waited_in_vain_can_go_on_waiting(controllers_socket: Path):
    with EventStream(controllers_socket) as stream:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                next(stream.events(timeout_s=0.01))


def test_it_ends_with_the_process_that_started_it(tmp_path: Path):
    config = ControllerConfig(WAN, wiring_of(WAN), tmp_path / "c.sock")
    save_config(config, tmp_path / "c.json")
    # A starter that starts the controller, says its process id, and is then killed.
    starter = (
        "import subprocess, sys; from controller.client import wait_listening;"
        "p = subprocess.Popen([sys.executable, '-m', 'controller', '--config', sys.argv[1]], stdout=subprocess.PIPE);"
        "wait_listening(p); print(p.pid, flush=True); p.wait()"
    )
    command = [sys.executable, "-c", starter, str(tmp_path / "c.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        controller = os.pidfd_open(int(parent.stdout.readline()))

        parent.kill()

        ended, _, _ = select.select([controller], [], [], ENDS_WITHIN_S)
    if not ended:
        signal.pidfd_send_signal(controller, signal.SIGKILL)
    os.close(controller)
    assert ended


def test_a_port_that_is_taken_is_an_error_that_says_so(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with _running(tmp_path, listen_port=port) as (process, _):
            assert process.wait(ENDS_WITHIN_S) == 1

    assert f"cannot listen on port {port} of 127.0.0.1: Address already in use" in (tmp_path / "log").read_text()


def test_a_configuration_that_is_wrong_is_an_error_without_a_traceback(tmp_path: Path):
    save_config(replace(ControllerConfig(WAN, wiring_of(WAN), tmp_path / "c.sock")), tmp_path / "c.json")
    plain = json.loads((tmp_path / "c.json").read_text())
    (tmp_path / "c.json").write_text(json.dumps({**plain, "period_s": -1}))

    done = subprocess.run(
        [sys.executable, "-m", "controller", "--config", str(tmp_path / "c.json")],
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "period_s is wrong" in done.stderr
    assert "Traceback" not in done.stderr


def _listening_addresses(pid: int) -> set[tuple[str, int]]:
    """Of all TCP sockets that the process listens on, from /proc."""
    inodes = {str(link.readlink())[8:-1] for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == "0A" and fields[9] in inodes:
                found.add((socket.inet_ntoa(bytes.fromhex(address)[::-1][:4]), int(port, 16)))
    return found


def _send_all_that_is_taken(connection: socket.socket, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)


def _ends(connection: socket.socket) -> bool:
    """Whether the other side closes; TimeoutError if it does not."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True
