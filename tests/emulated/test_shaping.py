"""What the kernel holds at the head of a link, read back from the kernel itself."""

import subprocess
import time

import pytest
from hoststate import host_state
from wans import wan_of

from testbed.bed import Testbed
from testbed.emulation.capabilities import detect
from testbed.measure import route_neighbors
from topologies import EdgeProperties, InputError, RingroadError

pytestmark = pytest.mark.emulated

FORWARD, BACKWARD = ("a", "b"), ("b", "a")


@pytest.fixture(scope="module")
def bed():
    with Testbed(wan_of({"ab": 50e6}), controller=None) as bed:
        route_neighbors(bed)
        yield bed


@pytest.fixture(autouse=True)
def as_it_was(bed):
    yield
    bed.reset()


def held(bed, edge=FORWARD):
    return next(status for status in bed.links() if status.edge == edge)


def tc(bed, action, *settings):
    interface = bed.plan.ports[FORWARD].interface
    command = ["tc", "qdisc", action, "dev", interface, "root", *settings]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout


@pytest.mark.parametrize("rate_bps", [8e3, 1e6, 123_456_784, 40e9, 1e12])
def test_any_rate_that_a_wan_may_have_is_held(bed, rate_bps):
    bed.shape("a-b", rate_bps=rate_bps)
    assert held(bed, FORWARD).properties.rate_bps == rate_bps
    assert held(bed, BACKWARD).properties.rate_bps == rate_bps


def test_tc_sees_the_same_rate(bed):
    bed.shape("a-b", rate_bps=30e6)
    assert "rate 30Mbit" in tc(bed, "show")


def test_a_full_frame_passes_the_slowest_link(bed):
    # 8 kbit/s: the first frame of 9014 bytes goes with the tokens that are there, whatever the kernel's clock can say
    bed.shape("a-b", rate_bps=8e3)
    done = bed.dc("a").run(["ping", "-M", "do", "-s", "8972", "-c", "1", "-W", "5", bed.dc("b").ip], 20)
    assert "1 received" in done.stdout


def test_many_edges_change_together_and_the_rest_keeps_what_it_has(bed):
    bed.shape_many({FORWARD: EdgeProperties(7e6)})
    assert held(bed, FORWARD).properties.rate_bps == 7e6
    assert held(bed, BACKWARD).properties.rate_bps == 50e6


def test_a_value_that_cannot_be_changes_nothing(bed):
    with pytest.raises(InputError, match="loss"):
        bed.shape("a-b", loss=1.5)
    with pytest.raises(InputError, match="rate_bps"):
        bed.shape("a-b", rate_bps=float("nan"))
    assert held(bed).properties.rate_bps == 50e6


def test_a_direction_that_is_not_of_the_link_is_refused_in_words(bed):
    with pytest.raises(InputError, match="a → c"):
        bed.shape("a-b", rate_bps=1e6, direction=("a", "c"))


def test_a_reset_heals_and_brings_back_the_first_properties(bed):
    bed.shape("a-b", rate_bps=1e6)
    bed.blackhole("a-b")
    bed.fail("a-b")
    bed.reset()
    status = held(bed)
    assert (status.up, status.blackholed, status.properties.rate_bps) == (True, False, 50e6)


def test_a_blackhole_twice_is_a_blackhole_and_one_heal_ends_it(bed):
    bed.blackhole("a-b")
    bed.blackhole("a-b")
    bed.heal("a-b")
    assert bed.dc("a").run(["ping", "-c", "1", "-W", "3", bed.dc("b").ip], 20).returncode == 0


def test_what_a_blackhole_swallows_is_no_stray_drop(bed):
    before = bed.stray_drops()
    bed.blackhole("a-b")
    bed.dc("a").run(["ping", "-c", "3", "-i", "0.1", "-W", "1", bed.dc("b").ip], 20)
    assert bed.stray_drops() == before


def test_stray_drops_are_told_by_every_way_into_a_switch(bed):
    assert bed.stray_drops().keys() == {"a → b", "b → a", "host of a → its switch", "host of b → its switch"}


def test_what_a_full_queue_drops_is_congestion_and_no_stray_drop(bed):
    bed.shape("a-b", rate_bps=1e6)
    before = bed.stray_drops()
    # 100 frames at once, into a queue of 16
    bed.dc("a").run(["ping", "-f", "-l", "100", "-c", "100", "-s", "8972", "-W", "1", bed.dc("b").ip], 20)
    assert held(bed).queue_drops > 0
    assert bed.stray_drops() == before


def test_looking_at_what_the_kernel_can_do_leaves_no_trace():
    before = host_state()
    found = detect()
    assert found.tbf
    assert found.openvswitch_datapath in ("system", "netdev")
    assert found.default_congestion_control in found.congestion_controls
    assert host_state() == before


def test_another_program_that_takes_a_queue_away_is_noticed(bed):
    tc(bed, "del")
    try:
        with pytest.raises(RingroadError, match="a → b is gone"):
            bed.links()
        with pytest.raises(RingroadError):
            bed.shape("a-b", rate_bps=1e6)
    finally:
        tc(bed, "add", "handle", "1:", "tbf", "rate", "1mbit", "burst", "20kb", "limit", "200kb")


def test_a_change_is_quick_enough_to_follow_any_trace(bed):
    # a bound on hanging; the figure is the benchmark's
    started = time.monotonic()
    for number in range(200):
        bed.shape("a-b", rate_bps=1e6 + number * 8)
    assert time.monotonic() - started < 20
