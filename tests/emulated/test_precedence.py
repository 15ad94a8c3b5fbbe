"""Real-time priority for the threads of a process, and back, on a process that is nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.emulation import precedence

pytestmark = pytest.mark.emulated

THREE_THREADS = """
import sys, threading
started = threading.Barrier(3)
for _ in range(2):
    threading.Thread(target=lambda: (started.wait(), threading.Event().wait()), daemon=True).start()
started.wait()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def pid() -> Iterator[int]:
    command = [sys.executable, "-c", THREE_THREADS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def _priorities(pid: int) -> list[tuple[int, int]]:
    threads = sorted(int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir())
    return [(os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority) for thread in threads]


def test_all_threads_go_first_and_those_that_do_not_forward_before_the_one_that_does(pid: int):
    assert precedence.put_first(pid, 3, 4) == ""

    assert _priorities(pid) == [(os.SCHED_RR, 3), (os.SCHED_RR, 4), (os.SCHED_RR, 4)]
    assert precedence.put_first(pid, 3, 4) == ""

    precedence.restore(pid)

    assert _priorities(pid) == [(os.SCHED_OTHER, 0)] * 3


def test_a_priority_that_somebody_else_has_set_stays(pid: int):
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(3))

    assert precedence.put_first(pid, 3, 4) == "it has a real-time priority of somebody else's"
    precedence.restore(pid)

    assert _priorities(pid)[0] == (os.SCHED_FIFO, 3)


def test_a_process_that_is_gone_needs_nothing():
    with subprocess.Popen(["true"]) as process:
        process.wait()

    precedence.restore(process.pid)
