"""How a live testbed ends when nobody asked for it: its process killed, or one that it depends on."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hoststate import host_state

from testbed.live import Client
from testbed.live.protocol import SOCKET

pytestmark = pytest.mark.emulated

RINGROAD = [sys.executable, "-m", "testbed.cli"]


def test_a_testbed_that_is_killed_is_cleaned_and_nothing_is_left():
    before = host_state()
    up = [*RINGROAD, "up", "mesh4", "--workers", "--detach", "--json"]
    facts = json.loads(subprocess.run(up, capture_output=True, text=True, timeout=60, check=True).stdout)
    # when its process is killed, and with it nothing else
    ended = os.pidfd_open(facts["pid"])
    os.kill(facts["pid"], signal.SIGKILL)
    select.select([ended], [], [], 10)
    os.close(ended)
    # then verbs say what to do
    said = subprocess.run([*RINGROAD, "status"], capture_output=True, text=True, timeout=30)
    assert said.returncode == 1 and "ringroad clean" in said.stderr
    # and after that nothing is left
    subprocess.run([*RINGROAD, "clean"], capture_output=True, timeout=60, check=True)
    assert host_state() == before
    said = subprocess.run([*RINGROAD, "status"], capture_output=True, text=True, timeout=30)
    assert said.returncode == 1 and "ringroad up" in said.stderr


def test_a_testbed_that_loses_what_it_depends_on_ends_with_its_name():
    up = [*RINGROAD, "up", "mesh4", "--json"]
    process = subprocess.Popen(up, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    facts = json.loads(process.stdout.readline())
    with Client(Path(facts["socket"])) as client:
        pid = client.where(site="tokyo").netns_pid
    os.kill(pid, signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "the shell of tokyo" in said
    assert not (Path(facts["socket"]).parent / SOCKET).exists()
