"""A testbed of one's own: any names, what the kernel lacks, and that nothing stays, however it ends."""

import dataclasses
import json
import signal
import subprocess
import sys
from itertools import pairwise

import pytest
from hoststate import host_state

from testbed.bed import Testbed
from topologies import EdgeProperties, Link, Site, Wan
from topologies.builtins import builtin

pytestmark = pytest.mark.emulated


def test_processes_of_a_dc_end_with_the_testbed_and_names_are_free():
    # given names of 40 characters with spaces and accents
    names = ["São Paulo – Água Branca, Brasil (sítio 1)", "東京 データセンター", "a-b->c / 'quoted' \"name\""]
    plain = EdgeProperties(20e6)
    links = tuple(Link(a, b, plain, plain) for a, b in pairwise(names))
    wan = Wan("Größe & Ähnliches", tuple(map(Site, names)), links)
    # when
    with Testbed(wan) as bed:
        asleep = bed.dc(names[1]).popen(["sleep", "1000"])
        ping = ["ping", "-c", "1", "-W", "3", bed.dc(names[2]).ip]
        assert bed.dc(names[0]).run(ping, 10).returncode == 0
        bed.shape(links[0].name, rate_bps=5e6)
    # then
    assert asleep.poll() is not None


def test_a_wan_that_asks_for_what_the_kernel_lacks_says_so_once():
    wan = builtin("mesh4")
    slow = {edge: dataclasses.replace(properties, delay_s=0.02) for edge, properties in wan.edges.items()}
    with Testbed(wan.with_properties(slow), controller=None) as bed:
        bed.shape("tokyo-oregon", delay_s=0.03)
        if bed.capabilities.netem:
            assert bed.notes == []
            held = next(link for link in bed.links() if link.edge == ("tokyo", "oregon"))
            assert held.properties.delay_s == pytest.approx(0.03)
        else:
            assert len(bed.notes) == 1 and "netem" in bed.notes[0]


HOLD = """
import signal, sys
from testbed.bed import Testbed
from topologies.builtins import builtin
with Testbed(builtin("mesh4")) as bed:
    bed.dc("tokyo").popen(["sleep", "1000"])
    print(bed.run_id, flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_script_that_is_interrupted_leaves_nothing(number):
    before = host_state()
    script = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    script.stdout.readline()
    script.send_signal(number)
    script.wait(timeout=30)
    subprocess.run([sys.executable, "-m", "testbed.cli", "clean"], capture_output=True, timeout=60, check=True)
    assert host_state() == before


def test_clean_removes_a_killed_owners_network_and_nothing_that_only_looks_like_it():
    # given somebody else's bridge, interface and namespace with names much like ours
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, timeout=10)

    netdev = ["set", "Bridge", "rzz9zs1", "datapath_type=netdev"]
    ip("netns", "add", "rzz9zh1")
    ip("link", "add", "rzz9zs1-e1", "type", "veth", "peer", "name", "rzz9zs2-e1")
    subprocess.run(["ovs-vsctl", "--timeout=10", "add-br", "rzz9zs1", "--", *netdev], check=True)
    try:
        foreign = host_state()
        script = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        run_id = script.stdout.readline().decode().strip()
        script.kill()
        script.wait()
        assert any(name.startswith(f"r{run_id}") for name in host_state()["interfaces"])
        # when
        done = subprocess.run(
            [sys.executable, "-m", "testbed.cli", "clean", "--json"], capture_output=True, text=True, timeout=60
        )
        # then
        assert json.loads(done.stdout)["removed"]
        assert host_state() == foreign
    finally:
        subprocess.run(["ovs-vsctl", "--timeout=10", "del-br", "rzz9zs1"], check=True)
        ip("link", "del", "rzz9zs1-e1")
        ip("netns", "del", "rzz9zh1")
