"""The emulated WAN: shaping in place, links down and up, blackholes, names, and who may use the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually

from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.emulation import openvswitch
from testbed.measure import goodput, pinned_to_edges
from topologies import InputError, RingroadError
from topologies.builtins import builtin

pytestmark = pytest.mark.emulated

RECEIVE = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("0.0.0.0", 5000))
receiver.settimeout(20)
print("ready", flush=True)
for _ in range(10):
    receiver.recv(9000)
print("all ten", flush=True)
"""
SEND = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(10):
    sender.sendto(bytes(8000), (sys.argv[1], 5000))
"""


@pytest.fixture(scope="module")
def bed():
    with Testbed(builtin("mesh4"), controller=ControllerSettings(policy="shortest")) as bed:
        yield bed


@pytest.fixture(autouse=True)
def as_it_was(request):
    yield
    if "bed" in request.fixturenames:
        request.getfixturevalue("bed").reset()


def held(bed, edge):
    return next(status for status in bed.links() if status.edge == edge)


def pings(bed, source, target, seconds=1):
    done = bed.dc(source).run(["ping", "-c", "1", "-W", str(seconds), bed.dc(target).ip], 10)
    return done.returncode == 0


def test_the_switches_go_before_everything_else_on_the_machine(bed):
    pid = openvswitch.switch_daemon_pid()
    threads = [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_RR}


def test_what_runs_in_a_dc_leaves_the_thread_that_forwards_a_processor(bed):
    own, forwarding = os.sched_getaffinity(0), os.sched_getaffinity(openvswitch.switch_daemon_pid())
    done = bed.dc("tokyo").run([sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"])
    assert {int(each) for each in done.stdout.split()} == (own - forwarding or own)


def test_every_link_carries_about_what_it_is_set_to_all_at_once(bed):
    for edge in bed.wan.edges:
        bed.shape(edge, rate_bps=20e6, direction=edge)
    with pinned_to_edges(bed):
        measured = goodput(bed, seconds=2)
    assert measured.keys() == bed.wan.edges.keys()
    for edge, each in measured.items():
        assert each.rate_bps == 20e6
        assert 0.7 < each.ratio < 1.05, edge


def test_a_change_of_rate_is_what_the_kernel_holds_and_touches_one_direction_only(bed):
    bed.shape("tokyo-oregon", rate_bps=30e6, direction=("oregon", "tokyo"))
    assert held(bed, ("oregon", "tokyo")).properties.rate_bps == 30e6
    assert held(bed, ("tokyo", "oregon")).properties.rate_bps == 100e6


def test_a_change_of_rate_drops_nothing_of_what_waits_in_the_queue(bed):
    # given ten datagrams of 8 kB, most of which wait for a link of 200 kbit/s
    edge = ("tokyo", "oregon")
    with pinned_to_edges(bed, [edge]):
        bed.shape("tokyo-oregon", rate_bps=200e3)
        receiver = bed.dc("oregon").popen([sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE, text=True)
        assert receiver.stdout.readline() == "ready\n"
        bed.dc("tokyo").run([sys.executable, "-c", SEND, bed.dc("oregon").ip], 10)
        assert held(bed, edge).backlog_bytes > 3 * 8000
        drops = held(bed, edge).queue_drops
        # when
        for rate_bps in (300e3, 250e3, 400e3, 20e6):
            bed.shape("tokyo-oregon", rate_bps=rate_bps)
            assert held(bed, edge).properties.rate_bps == rate_bps
        # then
        assert receiver.stdout.readline() == "all ten\n"
        receiver.wait(timeout=10)
    assert held(bed, edge).queue_drops == drops


def test_a_link_that_fails_is_down_at_both_ends_and_keeps_its_settings(bed):
    bed.shape("tokyo-oregon", rate_bps=30e6)
    bed.fail("tokyo-oregon")
    for edge in (("tokyo", "oregon"), ("oregon", "tokyo")):
        assert not held(bed, edge).up
        assert held(bed, edge).properties.rate_bps == 30e6
    assert not pings(bed, "tokyo", "oregon")
    bed.heal("tokyo-oregon")
    assert held(bed, ("tokyo", "oregon")).up
    eventually(lambda: pings(bed, "tokyo", "oregon"), 15)
    assert held(bed, ("tokyo", "oregon")).properties.rate_bps == 30e6


def test_a_blackhole_lets_nothing_pass_and_no_carrier_changes(bed):
    interfaces = [bed.plan.ports[edge].interface for edge in (("tokyo", "oregon"), ("oregon", "tokyo"))]
    changes = [Path(f"/sys/class/net/{name}/carrier_changes") for name in interfaces]
    before = [file.read_text() for file in changes]
    assert pings(bed, "tokyo", "oregon")
    bed.blackhole("tokyo-oregon")
    assert not pings(bed, "tokyo", "oregon")
    assert not pings(bed, "oregon", "tokyo")
    status = held(bed, ("tokyo", "oregon"))
    assert status.up and status.blackholed
    bed.heal("tokyo-oregon")
    assert pings(bed, "tokyo", "oregon", 3)
    assert [file.read_text() for file in changes] == before


def test_an_unknown_link_or_site_is_answered_with_the_nearest_one(bed):
    with pytest.raises(InputError, match="tokyo-oregon"):
        bed.shape("tokyo-oregn", rate_bps=1e6)
    with pytest.raises(InputError, match="tokyo"):
        bed.dc("tokio")
    with pytest.raises(InputError):
        bed.shape("tokyo-oregon", rate_bps=-1)


def test_a_second_testbed_is_told_who_holds_the_machine(bed):
    with pytest.raises(RingroadError, match=f"run {bed.run_id}, pid {os.getpid()}"), Testbed(builtin("mesh4")):
        pass
