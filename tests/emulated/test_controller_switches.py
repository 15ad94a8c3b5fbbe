"""The controller on real Open vSwitch bridges, on both OpenFlow stacks: its rules, and what others do to it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from wans import wan_of

from controller.client import EventStream
from controller.engine import network_of
from controller.installing import rule_at
from controller.rules import Kind, cookie
from controller.settings import STACKS, ControllerSettings, load_config
from testbed.bed import Testbed
from testbed.emulation.openvswitch import controller_commands, vsctl

pytestmark = pytest.mark.emulated

WAN = wan_of({"ab": 50e6, "ac": 50e6, "bc": 50e6, "ad": 50e6, "bd": 50e6})
EVENT_WITHIN_S = 20.0
UNKNOWN_DPID = 0xBAD
NOBODYS_PORT = 1

SERVE = """
import socket, sys
server = socket.create_server(("", 7791))
print("ready", flush=True)
for _ in range(int(sys.argv[1])):
    connection, _ = server.accept()
    connection.sendall(b"x" * 30_000)
    connection.close()
"""
FETCH = """
import socket, sys
for address in sys.argv[1:]:
    connection, received = socket.create_connection((address, 7791), timeout=5), 0
    while piece := connection.recv(65536):
        received += len(piece)
    print(received)
"""


@pytest.fixture(scope="module", params=STACKS)
def bed(request: pytest.FixtureRequest) -> Iterator[Testbed]:
    with Testbed(WAN, controller=ControllerSettings(stack=request.param, period_s=0.2)) as bed:
        yield bed


@pytest.fixture
def events(bed: Testbed) -> Iterator[EventStream]:
    with bed.controller.subscribe() as stream:
        yield stream


def _next(stream: EventStream, **fields: Any) -> dict[str, Any]:
    """The next event with these fields."""
    return next(e for e in stream.events(EVENT_WITHIN_S) if all(e.get(k) == v for k, v in fields.items()))


def _cookies(bridge: str) -> list[int]:
    listing = subprocess.run(
        ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", bridge], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    return sorted(int(line.split("cookie=")[1].split(",")[0], 16) for line in listing.splitlines() if "cookie=" in line)


def _planned_cookies(bed: Testbed, site: str) -> list[int]:
    network = network_of(load_config(bed.state / "controller.json"))
    version = network.plan.version
    inner = [rule_at(carrier, site, network.wiring).cookie for carrier in network.through[site]]
    pairs = enumerate(network.plan.tunnels)
    ingress = [cookie(Kind.INGRESS, version, number) for number, (source, _) in pairs if source == site]
    return sorted([cookie(Kind.TABLE_MISS, version), *ingress, *inner])


def _everybody_reaches_everybody(bed: Testbed) -> None:
    names = [site.name for site in bed.wan.sites]
    for target in names:
        others = [name for name in names if name != target]
        server = bed.site(target).popen([sys.executable, "-c", SERVE, str(len(others))], stdout=subprocess.PIPE)
        assert server.stdout.readline() == b"ready\n"
        for source in others:
            done = bed.site(source).run([sys.executable, "-c", FETCH, bed.site(target).ip])
            assert done.stdout == "30000\n", f"{source} to {target}: {done.stderr}"
        server.stdout.close()
        assert server.wait(20) == 0


def test_every_rule_of_the_plan_is_on_its_switch_and_no_other(bed: Testbed):
    for site in bed.plan.sites.values():
        assert _cookies(site.switch) == _planned_cookies(bed, site.site)


def test_every_pair_gets_through_by_tcp(bed: Testbed):
    _everybody_reaches_everybody(bed)


@contextmanager
def _disconnected(bed: Testbed, events: EventStream, site: str) -> Iterator[str]:
    """The switch of a site looks for its controller where there is none. (Without any, it would forget its rules.)"""
    switch = bed.plan.sites[site].switch
    vsctl(controller_commands([switch], NOBODYS_PORT))
    _next(events, event="switch", what="lost", site=site)
    yield switch
    vsctl(controller_commands([switch], bed.controller.status().port))
    _next(events, event="switch", what="connected", site=site)
    bed.controller.wait_ready(EVENT_WITHIN_S)


def test_a_switch_that_comes_back_empty_gets_its_rules_and_its_traffic_again(bed: Testbed, events: EventStream):
    with _disconnected(bed, events, "c") as switch:
        subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", switch], check=True, timeout=20)

    assert _cookies(switch) == _planned_cookies(bed, "c")
    _everybody_reaches_everybody(bed)


def test_a_switch_without_its_controller_goes_on_forwarding(bed: Testbed, events: EventStream):
    with _disconnected(bed, events, "c"):
        _everybody_reaches_everybody(bed)


@contextmanager
def _stranger(bed: Testbed) -> Iterator[str]:
    """A bridge of a datapath id that is not of this WAN, labelled as this run's so that nothing can be left behind."""
    name = f"r{bed.run_id}x"
    vsctl(
        [
            ["add-br", name],
            ["set", "Bridge", name, f"datapath_type={bed.capabilities.openvswitch_datapath}", "fail_mode=secure"],
            ["set", "Bridge", name, f"other_config:datapath-id={UNKNOWN_DPID:016x}", "protocols=OpenFlow13"],
            ["set", "Bridge", name, f"external_ids:ringroad={bed.run_id}"],
            *controller_commands([name], bed.controller.status().port),
        ]
    )
    try:
        yield name
    finally:
        vsctl([["del-br", name]])


def test_a_switch_of_unknown_datapath_id_is_turned_away_and_recorded(bed: Testbed, events: EventStream):
    with _stranger(bed) as switch:
        _next(events, event="switch", what="refused", dpid=UNKNOWN_DPID)

        assert _cookies(switch) == []
    status = bed.controller.status()
    assert status.refused == (UNKNOWN_DPID,)
    assert status.connected == (1, 2, 3, 4)


def test_garbage_on_both_ports_does_not_keep_it_from_rerouting(bed: Testbed, events: EventStream):
    with (
        socket.create_connection(("127.0.0.1", bed.controller.status().port)) as openflow,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        unix.connect(str(bed.state / "controller.sock"))
        for vandal in (openflow, unix):
            vandal.sendall(b"\x04\x00\x00\x08\x00\x00\x00\x01" + b"\xff" * 20_000 + b"\n")

        bed.shape("a-b", rate_bps=5e6)
        event = _next(events, event="reconfiguration", cause="capacity")

    assert {"pair": ["a", "b"], "from": ["a", "b"], "to": ["a", "c", "b"]} in event["moves"]
    bed.reset()
