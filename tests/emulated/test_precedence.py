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
def live(name):
    with open("/proc/thread-self/comm", "w") as file:
        file.write(name)
    started.wait()
    threading.Event().wait()
for name in ("revalidator7", "handler8"):
    thread = threading.Thread(target=live, args=(name,), daemon=True)
    thread.start()
    while thread.native_id is None:
        pass
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


def test_threads_that_share_a_processor_run_only_while_the_first_one_sleeps(pid: int):
    own = os.sched_getaffinity(pid)
    first, named, other = sorted(int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir())
    precedence.put_first(pid, 3, 4)

    precedence.share_processor(pid, "revalidator")

    assert _priorities(pid) == [(os.SCHED_RR, 3), (os.SCHED_RR, 3), (os.SCHED_RR, 4)]
    assert len(os.sched_getaffinity(first)) == 1
    assert os.sched_getaffinity(named) == os.sched_getaffinity(first)
    assert os.sched_getaffinity(other) == own

    precedence.restore(pid)

    assert _priorities(pid) == [(os.SCHED_OTHER, 0)] * 3
    assert {frozenset(os.sched_getaffinity(thread)) for thread in (first, named, other)} == {frozenset(own)}


def test_others_keep_off_the_processor_of_the_first_and_so_does_what_they_start(pid: int):
    own = os.sched_getaffinity(0)
    precedence.put_first(pid, 3, 4)
    precedence.share_processor(pid, "revalidator")
    others = own - os.sched_getaffinity(pid) or own
    say = f"import os, sys; print(sorted(os.sched_getaffinity(0)) == {sorted(others)})"
    starts = f"import subprocess, sys; sys.stdin.read(1); subprocess.run([sys.executable, '-c', {say!r}])"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    asks = [sys.executable, "-c", starts]
    with subprocess.Popen(asks, **pipes) as leader, subprocess.Popen(["cat"], **pipes) as late:
        precedence.keep_off(leader.pid, pid)
        precedence.follow(late.pid, leader.pid)

        assert os.sched_getaffinity(late.pid) == others
        assert leader.communicate(b"x")[0] == b"True\n"
        late.communicate()

    precedence.follow(late.pid, pid)  # one that is gone needs nothing


def test_nobody_keeps_off_a_process_that_nobody_has_put_first(pid: int):
    own = os.sched_getaffinity(0)

    precedence.keep_off(pid, os.getpid())

    assert os.sched_getaffinity(pid) == own


def test_without_precedence_nobody_is_held_to_a_processor(pid: int):
    own = os.sched_getaffinity(pid)

    precedence.share_processor(pid, "python")

    assert os.sched_getaffinity(pid) == own
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
