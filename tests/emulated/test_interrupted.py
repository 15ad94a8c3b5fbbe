"""A testbed that is ended at any moment while it comes up or goes down: killed, or by Ctrl-C."""

import signal
import subprocess
import sys

import pytest
from hoststate import host_state

pytestmark = pytest.mark.emulated

UP_AND_DOWN = """
import os, sys, threading
from testbed.bed import Testbed
from topologies.builtins import builtin

def end_it():
    print("now", flush=True)
    os.kill(os.getpid(), {number})

threading.Timer({after_s}, end_it).start()
with Testbed(builtin("six")) as bed:
    bed.dc(bed.wan.dcs[0]).popen(["sleep", "1000"])
"""
MOMENTS_S = (0.05, 0.15, 0.25, 0.35, 0.5, 0.8)
"""Where this was written a testbed of six sites takes 0.5 s to come up and 0.6 s to go down."""


def end_after(after_s, number):
    script = UP_AND_DOWN.format(number=int(number), after_s=after_s)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("after_s", MOMENTS_S)
def test_ctrl_c_at_any_moment_leaves_nothing(after_s):
    before = host_state()
    done = end_after(after_s, signal.SIGINT)
    assert host_state() == before, done.stderr
    assert "now" not in done.stdout or "KeyboardInterrupt" in done.stderr


@pytest.mark.parametrize("after_s", MOMENTS_S)
def test_what_a_kill_at_any_moment_leaves_is_gone_after_a_clean_up(after_s):
    before = host_state()
    end_after(after_s, signal.SIGKILL)
    cleaning = [sys.executable, "-m", "testbed.cli", "clean"]
    subprocess.run(cleaning, check=True, capture_output=True, timeout=60)
    assert host_state() == before
