"""Ryu and os-ken put the same bytes on the wire: every rule and every group of a plan."""

from __future__ import annotations

import os
import subprocess
import sys

from controller.settings import STACKS

PROGRAM = """
import sys
from controller import stack
stack.choose(sys.argv[1])
from pathlib import Path
from wans import wan_of, wiring_of
from controller import ofmsgs
from controller.engine import Engine
from controller.settings import ControllerConfig, ControllerSettings
from openflow_table import Switchboard

class Recording(Switchboard):
    def send(self, batch):
        encoded = ofmsgs.encode_batch(datapath, batch)
        print(batch.site, *sorted(without_xid(encoded.data)))
        super().send(batch)

class Datapath:
    ofproto, ofproto_parser = stack.chosen().ofproto, stack.chosen().parser
    xid = 0
    def set_xid(self, message):
        Datapath.xid += 1
        message.set_xid(Datapath.xid)
        return Datapath.xid

def without_xid(data):
    while data:
        length = int.from_bytes(data[2:4], "big")
        yield (data[:4] + bytes(4) + data[8:length]).hex()
        data = data[length:]

datapath = Datapath()
wan = wan_of({"ab": 1e8, "ac": 1e8, "bc": 1e8, "cd": 1e8, "bd": 1e8})
switches = Recording(wiring_of(wan))
config = ControllerConfig(wan, wiring_of(wan), Path("/none"), ControllerSettings("widest"))
engine = Engine(config, switches, lambda event: None, lambda: 0.0)
def settle():
    switches.settle(engine)
for site in "abcd":
    engine.connected(site, frozenset())
settle()
engine.capacity({("a", "b"): 1e6}, 0.0)
settle()
assert engine.state.ready
"""


def test_both_encode_a_whole_start_and_a_move_alike():
    said = {}
    for stack in STACKS:
        # The same seed, so that what has no order comes in the same order; the same path as here, for tests/support.
        environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", PROGRAM, stack]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        said[stack] = done.stdout

    assert said["ryu"] == said["os_ken"]
    assert {line[0] for line in said["ryu"].splitlines()} == set("abcd")
