"""What the controller sees, and by what policy it decides, in its own process over real switches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from wans import wan_of

from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.measure_flows import result_of, start_flow

pytestmark = pytest.mark.emulated

EVENT_WITHIN_S = 20.0
AB, CB = ("a", "b"), ("c", "b")
OWN_POLICY = """
class Raising:
    def decide(self, view, now):
        raise ArithmeticError("the weights are gone")
"""


# First, for there can be one testbed at a time and that of the other tests stays up.
def test_a_ceiling_that_nobody_told_is_measured_where_a_flow_fills_the_link_and_the_flow_leaves():
    wan = wan_of({"ab": 40e6, "ac": 40e6, "bc": 40e6})
    settings = ControllerSettings("widest", period_s=0.2, capacity="measured", dwell_s=0.0)
    with Testbed(wan, controller=settings) as bed, bed.controller.subscribe() as stream:
        bed.shape("a-b", rate_bps=10e6)
        receiver, sender = start_flow(bed, AB, "tcp", 30e6, 4.0)
        event = next(e for e in stream.events(EVENT_WITHIN_S) if e.get("cause") == "capacity")
        known_bps = bed.controller.view().capacities_bps[AB]
        result_of(sender)
        result_of(receiver)

    assert {"pair": ["a", "b"], "from": ["a", "b"], "to": ["a", "c", "b"]} in event["moves"]
    assert 8e6 < known_bps < 11e6


@pytest.fixture(scope="module")
def announced_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Demands are announced; the controller was started in a folder that holds a person's own policy."""
    folder, before = tmp_path_factory.mktemp("own"), Path.cwd()
    (folder / "own_paths.py").write_text(OWN_POLICY)
    wan = wan_of({"ac": 50e6, "bc": 50e6, "ad": 30e6, "bd": 30e6})
    os.chdir(folder)
    try:
        with Testbed(wan, controller=ControllerSettings("maxmin", demands="announced")) as bed:
            yield bed
    finally:
        os.chdir(before)


def test_pairs_that_are_announced_are_placed_together_at_once(announced_bed: Testbed):
    bed = announced_bed
    bed.reset()
    bed.shape("a-c", rate_bps=5e6, direction=("c", "a"))
    with bed.controller.subscribe() as stream:
        bed.controller.demands({AB: 1e6, CB: 1e6}, happened_at=0.0)
        event = next(e for e in stream.events(EVENT_WITHIN_S) if e.get("cause") == "demands")

    # Both by cb: 25 each. a→b by d: 30 and 50.
    assert {"pair": ["a", "b"], "from": ["a", "c", "b"], "to": ["a", "d", "b"]} in event["moves"]
    assert event["installed_at"] is not None
    assert bed.controller.view().active == {AB, CB}


def test_a_persons_policy_that_raises_is_told_and_the_controller_goes_on(announced_bed: Testbed):
    bed = announced_bed
    bed.reset()
    bed.controller.reset("own_paths:Raising", 0.1)
    routes = bed.controller.view().routes
    with bed.controller.subscribe() as stream:
        bed.shape("a-c", rate_bps=5e6)
        event = next(e for e in stream.events(EVENT_WITHIN_S) if e["event"] == "policy")

    assert event["policy"] == "own_paths:Raising"
    assert "ArithmeticError: the weights are gone (own_paths.py:4)" in event["what"]
    assert bed.controller.view().routes == routes
    assert bed.controller.reset("widest") is None
