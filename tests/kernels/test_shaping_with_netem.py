"""Delay, loss and reordering in a kernel that has netem: each way apart, changed in place together with the rate."""

import json
import re
import sys
from pathlib import Path

import kernelguests
import pytest

pytestmark = [
    pytest.mark.kernel,
]

PROGRAM = Path(__file__).with_name("shaped_inside.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    done = kernelguests.run("uml", tmp_path_factory.mktemp("shaped"), [sys.executable, str(PROGRAM)], timeout_s=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_that_kernel_has_all_that_a_wan_may_need(found):
    capabilities = found["capabilities"]
    assert capabilities["netem"] and capabilities["tbf"] and capabilities["blackhole"]
    assert capabilities["openvswitch_datapath"] == "system"
    assert {"cubic", "reno", "bbr"} <= set(capabilities["congestion_controls"])


def test_a_change_of_delay_and_rate_loses_no_packet_that_is_under_way(found):
    assert " 0% packet loss" in found["pings"], found["pings"]
    assert re.search(r"60 packets transmitted, 60 received", found["pings"])


def test_the_kernel_holds_both_directions_as_they_were_set_last(found):
    # the last of 20 steps: 5 + 9.5 ms and 39 Mbit/s there, 5 + 4.75 ms and the first rate back
    there, back = found["changed"]["a b"], found["changed"]["b a"]
    assert (there["delay_s"], there["rate_bps"]) == (0.0145, 39e6)
    assert (back["delay_s"], back["rate_bps"]) == (0.00975, 40e6)


def test_round_trips_take_both_delays(found):
    # 14.5 + 9.75 ms; a shared machine may be late, never early
    assert 24.2 < sorted(found["round_trips_ms"])[len(found["round_trips_ms"]) // 2] < 35


def test_loss_and_reordering_are_each_in_their_own_direction(found):
    there, back = found["probes"]["a b"], found["probes"]["b a"]
    # of 300 packets 60 are lost: 25 to 100 is what chance allows in all but one of a million times
    assert 25 <= there["lost"] <= 100
    assert there["overtook"] == 0
    # and 90 overtake: 50 to 135
    assert back["lost"] == 0
    assert 50 <= back["overtook"] <= 135


def test_a_delayed_link_carries_no_more_than_its_rate(found):
    # this kernel runs in real time on one shared core: it may fall behind its rate, never get ahead of it
    assert 0.5 < found["rates"]["a b"] < 1.02
