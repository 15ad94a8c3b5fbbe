"""Whoever else connects to the launcher, whatever is stopped: a job is not harmed, or its end names the culprit."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from loopback import MakeJob

from topologies import wire
from workers.client import WorkerFailed, WorkersClient, launch
from workers.job import Every


def connect(path: Path, content: bytes = b"") -> socket.socket:
    stranger = socket.socket(socket.AF_UNIX)
    stranger.settimeout(5)
    stranger.connect(os.fspath(path))
    with suppress(OSError):
        stranger.sendall(content)
    return stranger


@pytest.mark.parametrize(
    "content",
    [b"\xff\x00\n" * 100, b"[" * 1_000_000 + b"\n", b"x" * (wire.MAX_LINE_BYTES + 1), b'{"op":"?"}\n' * 100_000],
    ids=["garbage", "nested", "endless", "questions without reading"],
)
def test_a_stranger_does_not_harm_a_job(launcher_socket: Path, client: WorkersClient, job: MakeJob, content: bytes):
    client.start(job(collectives=10, pacing=Every(0.1)))
    thread = threading.Thread(target=lambda: strangers.append(connect(launcher_socket, content)))
    strangers: list[socket.socket] = []
    thread.start()
    before = time.monotonic()
    assert client.run(lambda _: None)
    assert time.monotonic() - before < 10
    thread.join()
    for stranger in strangers:
        stranger.close()


def test_a_crowd_is_turned_away(launcher_socket: Path, client: WorkersClient, job: MakeJob):
    client.start(job(collectives=5, pacing=Every(0.1)))
    crowd = []
    for _ in range(300):
        with suppress(OSError):
            crowd.append(connect(launcher_socket))
    try:
        assert client.run(lambda _: None)
    finally:
        for stranger in crowd:
            stranger.close()


def test_a_rank_that_is_stopped_is_named_once_the_others_have_waited_long_enough(client: WorkersClient, job: MakeJob):
    pids = client.start(job(collectives=1000, pacing=Every(0.05), timeout_s=2.0))["pids"]
    threading.Timer(0.3, os.kill, (pids[2], signal.SIGSTOP)).start()
    with pytest.raises(WorkerFailed, match=r"rank 2 \(tokyo\): has been stopped"):
        client.run(lambda _: None)


def test_a_client_can_give_up_on_a_launcher_that_is_stopped(tmp_path: Path, job: MakeJob):
    process = launch(tmp_path / "launcher.sock", tmp_path / "log")
    process.send_signal(signal.SIGSTOP)
    try:
        with WorkersClient(tmp_path / "launcher.sock") as client:
            threading.Timer(0.2, client.give_up).start()
            with pytest.raises(wire.WireError, match="start"):
                client.start(job())
    finally:
        process.kill()
        process.wait()
