"""A ring that changes while it runs is announced to the WAN controller anew, with real workers on real links."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.arm import ArmSetting, run_arm
from testbed.bed import Testbed
from testbed.experiment import blocks_plan, read_experiment
from testbed.launching import launcher
from testbed.runfolder import RunFolder

pytestmark = pytest.mark.emulated

EXPERIMENT = """
name: announced
wan:
  name: one slow link
  sites: [{name: a}, {name: b}, {name: c}, {name: d}]
  links:
    - {between: [a, b], rate: 4mbit}
    - {between: [a, c], rate: 40mbit}
    - {between: [a, d], rate: 40mbit}
    - {between: [b, c], rate: 40mbit}
    - {between: [b, d], rate: 40mbit}
    - {between: [c, d], rate: 40mbit}
arms: [ccl]
blocks: 1
payload: 64KiB
collectives: 4
reorder_every: 2
agent: {source: feed}
controller: {policy: widest, demands: announced}
"""


def test_the_controller_expects_the_ring_that_runs_also_after_it_has_changed(tmp_path: Path):
    # Of the three rings over four DCs two take a–b, which is ten times slower: the agent turns to the third.
    experiment = read_experiment(EXPERIMENT, tmp_path / "announced.yaml", 2**33)
    [block] = blocks_plan(experiment)
    bed = Testbed(experiment.wan, controller=experiment.controller.settings("shortest"))
    with RunFolder.create("announced", bed.run_id, experiment.text, out=tmp_path / "run") as folder:
        bed.log_folder = folder.logs
        with bed, launcher(bed, bed.state / "workers.sock", folder.logs / "workers.log"):
            setting = ArmSetting(bed, experiment, folder, bed.state / "workers.sock", lambda: None)

            run_arm(setting, block, block.arms[0], start_order=(0, 1, 2, 3))

            expected = bed.controller.view().active
        changes = [change for change in folder.read(block.block, "ccl", "ring_changes") if change["changed"]]

    ring = ["abcd"[rank] for rank in changes[-1]["to"]]
    assert {"ab", "ba"}.isdisjoint(map("".join, zip(ring, ring[1:] + ring[:1], strict=True)))
    assert expected == set(zip(ring, ring[1:] + ring[:1], strict=True))
