"""A live testbed in a user-mode kernel is as one on the machine's own: every verb from outside, delays, and its end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hoststate import host_state

from testbed.emulation.clean import clean
from testbed.kernels import images
from testbed.kernels.choosing import Kernel
from testbed.live import Client
from testbed.live.protocol import CollectiveEvent

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(300),
]

RINGROAD = [sys.executable, "-m", "testbed.cli"]
WAN = """
name: pair
defaults: {rate: 50mbit, delay: 10ms}
sites: [{name: a}, {name: b}, {name: c}]
links: [{between: [a, b]}, {between: [b, c]}, {between: [a, c]}]
"""


def ringroad(*arguments, timeout_s=60, **options):
    return subprocess.run(
        [*RINGROAD, *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s, **options
    )


def said(*arguments, **options):
    """What a verb answers, as JSON."""
    done = ringroad(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """Detached; the machine is as before when it is down again."""
    folder = tmp_path_factory.mktemp("live")
    (folder / "wan.yaml").write_text(WAN)
    clean()  # of what a killed run may have left
    before = host_state()
    arguments = ("up", folder / "wan.yaml", "--kernel", "uml", "--workers", "--payload", "64KiB", "--every", "300ms")
    done = ringroad(*arguments, "--arm", "joint", "--detach", "--json", timeout_s=200)
    assert done.returncode == 0, done.stderr
    assert "kernel: uml (a user-mode kernel, in real time): asked for" in done.stderr
    yield json.loads(done.stdout)
    said("down", "--json")
    assert host_state() == before


def test_it_is_reached_as_if_it_were_here_and_says_on_which_kernel_it_is(up):
    snapshot = said("status", "--json")
    assert (snapshot["run_id"], snapshot["pid"]) == (up["run_id"], up["pid"])
    assert Path(up["socket"]).stat().st_mode & 0o777 == 0o600
    kernel = snapshot["kernel"]
    assert (kernel["kernel"], kernel["version"]) == ("uml", images.image(Kernel.UML).version)
    assert "kernel: uml (a user-mode kernel, in real time), Linux" in ringroad("status").stdout


def test_a_second_one_is_refused_and_told_who_is_there(up):
    done = ringroad("up", "mesh4")
    assert done.returncode == 1
    assert f"run {up['run_id']}, pid {up['pid']}" in done.stderr


def test_collectives_go_on_while_links_fail_heal_and_get_other_delays_and_the_ring_another_order(up):
    with Client() as testbed, Client() as listener:
        _, events = listener.subscribe()
        assert testbed.fail(("a", "b")).targets == ("a-b",)
        assert not next(each for each in testbed.snapshot().links if each.link == "a-b").up
        testbed.heal()
        testbed.ring(["a", "c", "b"])
        collectives = (event.collective for event in events if isinstance(event, CollectiveEvent))
        assert next(each for each in collectives if each.order == ("a", "c", "b")).verified


def test_a_delay_is_shaped_there_whatever_this_machine_has_and_a_program_there_sees_it(up):
    said("arm", "static", "--json")  # whose paths are the shortest: not around by c
    said("shape", "a", "b", "--delay", "50ms", "--json")
    pinged = ringroad("sh", "a", "ping", "-c", "3", "-q", "@b")
    assert pinged.returncode == 0, pinged.stderr
    # min/avg/max/mdev: 2 · 50 ms, and what one busy CPU adds
    assert 100 <= float(pinged.stdout.split(" = ")[1].split("/")[0]) < 150


def test_a_capture_is_written_here_and_a_trace_is_read_from_here(up, tmp_path):
    captured = said("capture", "a", "b", "-w", tmp_path / "out.pcap", "--for", "2s", "--json")
    assert captured["file"] == str(tmp_path / "out.pcap")
    # the magic number of libpcap's format, in the machine's order
    assert (tmp_path / "out.pcap").read_bytes()[:4] == b"\xd4\xc3\xb2\xa1"
    # a file that came into being after the kernel was booted
    (tmp_path / "rates.csv").write_text("time,link,rate\n0,a-b,20mbit\n")
    assert "rates.csv plays" in said("trace", "rates.csv", "--json", cwd=tmp_path)["did"]


def test_the_exit_code_of_a_program_inside_is_its_own(up):
    assert ringroad("sh", "a", "sh", "-c", "exit 7", env=os.environ).returncode == 7
