"""How soon the controller serves again after its worker was killed, or got stuck. No switch, no network, no root."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.decisions import wiring_of
from benchmarks.figure import Figure, Reach, figure
from controller.client import ControllerClient, wait_listening
from controller.settings import STACKS, ControllerConfig, ControllerSettings, save_config
from topologies.wanfile import load_wan

KILLS = 5
DEATHS = {"killed": signal.SIGKILL, "stuck": signal.SIGSTOP}


def restarts() -> Iterator[Figure]:
    """The controller's worker is killed, or stopped, again and again: how soon does the next one answer?"""
    for stack in STACKS:
        for how, number in DEATHS.items():
            with tempfile.TemporaryDirectory(prefix="ringroad-bench-") as folder:
                took_s = list(_deaths(Path(folder), stack, number))
            against = f"{KILLS} deaths on {stack}, six, until a request is answered; slowest"
            yield figure(f"controller's worker {how} → serves again", max(took_s), "s", against, Reach(at_most=2))


def _deaths(folder: Path, stack: str, number: signal.Signals) -> Iterator[float]:
    wan = load_wan("six")
    config = ControllerConfig(wan, wiring_of(wan), folder / "c.sock", ControllerSettings(stack=stack))
    save_config(config, folder / "c.json")
    with _process(folder) as process, ControllerClient(config.socket) as client:
        for count in range(1, KILLS + 1):
            client.status()
            worker = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
            at = time.monotonic()
            os.kill(worker, number)
            assert client.status().restarts == count
            yield time.monotonic() - at


@contextmanager
def _process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "controller", "--config", str(folder / "c.json")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_listening(process)
        yield process
    finally:
        process.terminate()
        process.communicate()
