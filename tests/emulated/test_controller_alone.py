"""`ringroad controller` with switches that are not of its making."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from wans import wan_of

from controller.client import ControllerClient
from testbed.bed import Testbed
from testbed.emulation.openvswitch import controller_commands, vsctl
from topologies.wanfile import write_wan

pytestmark = pytest.mark.emulated

WAN = wan_of({"ab": 50e6, "ac": 50e6, "bc": 50e6})
WITHIN_S = 20.0


def test_the_controller_alone_steers_switches_that_the_printed_commands_would_attach(tmp_path: Path):
    (tmp_path / "wan.yaml").write_text(write_wan(WAN))
    command = [sys.executable, "-m", "testbed.cli", "controller", str(tmp_path / "wan.yaml")]
    command += ["--listen", "0", "--socket", str(tmp_path / "c.sock")]
    with (
        Testbed(WAN, controller=None) as bed,
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        process.stdout.readline()
        with ControllerClient(tmp_path / "c.sock") as client:
            switches = [site.switch for site in bed.plan.sites.values()]
            vsctl(controller_commands(switches, client.status().port))
            client.wait_ready(WITHIN_S)
        done = bed.site("a").run(["ping", "-c", "2", bed.site("c").ip])
        process.terminate()
        code = process.wait(WITHIN_S)

    assert (done.returncode, code) == (0, 0)
