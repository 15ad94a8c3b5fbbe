"""A controller that is killed with its watchdog: switches go on, and another controller takes over what they hold."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from arrivals import wait_for_packets
from switchrules import flows
from waiting import eventually
from wans import wan_of

from controller.client import ControllerClient, wait_listening
from controller.settings import ControllerSettings, load_config, save_config
from testbed.bed import Testbed
from testbed.measure_flows import NumberedFlow, result_of, start_flow

pytestmark = pytest.mark.emulated

WAN = wan_of({"ab": 50e6, "ac": 50e6, "bc": 50e6, "ad": 50e6, "bd": 50e6})
READY_WITHIN_S = 20.0


def test_traffic_goes_on_and_another_controller_takes_over_without_touching_a_rule(tmp_path: Path):
    with Testbed(WAN, controller=ControllerSettings(period_s=0.2)) as bed:
        config = load_config(bed.state / "controller.json")
        port = bed.controller.status().port
        before = flows(bed)
        receiver, sender = start_flow(bed, ("a", "b"), "udp", 5000, 0.001)
        wait_for_packets(bed.site("b"))
        watchdog = next(process for process in bed.processes() if process.name == "controller")
        os.kill(watchdog.pid, signal.SIGKILL)
        eventually(lambda: not watchdog.alive)

        settings = replace(config.settings, listen_port=port, http_port=None)
        save_config(replace(config, socket=tmp_path / "c.sock", settings=settings), tmp_path / "c.json")
        command = [sys.executable, "-m", "controller", "--config", str(tmp_path / "c.json")]
        with (tmp_path / "log").open("wb") as log:
            another = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            wait_listening(another)
            with ControllerClient(tmp_path / "c.sock") as client:
                client.wait_ready(READY_WITHIN_S)
            after = flows(bed)
        finally:
            another.terminate()
            another.wait(20)
            another.stdout.close()
        result_of(sender)
        flow = NumberedFlow(**result_of(receiver))

    assert (flow.sent, flow.lost, flow.repeated) == (5000, 0, 0)
    assert after == before
