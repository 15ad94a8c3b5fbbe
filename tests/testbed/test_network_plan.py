"""Names, numbers and addresses of a run, by hand."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wans import wan_of

from testbed.emulation.openvswitch import bridge_commands, controller_commands, deletion_commands
from testbed.emulation.plan import NetworkPlan, is_name_of, new_run_id
from topologies import EdgeProperties, Link, RingroadError, Site, Wan

TRIANGLE = NetworkPlan("k3f9", wan_of({"ab": 1e8, "bc": 1e8, "ca": 1e8}))


def test_sites_are_numbered_from_one_and_everything_follows_from_the_number():
    site = TRIANGLE.sites["b"]
    assert (site.number, site.dpid) == (2, 2)
    assert (site.switch, site.host, site.host_port) == ("rk3f9s2", "rk3f9h2", "rk3f9s2-e1")
    assert (site.ip, site.mac) == ("10.77.0.2", "02:00:00:00:00:02")


def test_port_one_leads_to_the_host_and_the_rest_to_neighbors_in_the_order_of_the_links():
    ports = {edge: (port.switch, port.number) for edge, port in TRIANGLE.ports.items()}
    assert ports == {
        ("a", "b"): ("rk3f9s1", 2),
        ("b", "a"): ("rk3f9s2", 2),
        ("b", "c"): ("rk3f9s2", 3),
        ("c", "b"): ("rk3f9s3", 2),
        ("c", "a"): ("rk3f9s3", 3),
        ("a", "c"): ("rk3f9s1", 3),
    }
    assert TRIANGLE.ports["a", "c"].interface == "rk3f9s1-e3"


def test_addresses_go_on_after_site_255():
    site = NetworkPlan("k3f9", _chain(300)).sites["site 300"]
    # 300 = 1 × 256 + 44
    assert (site.ip, site.mac) == ("10.77.1.44", "02:00:00:00:01:2c")


def test_no_name_is_longer_than_the_kernel_takes_and_none_holds_a_site_s_own():
    plan = NetworkPlan("zzzz", _chain(999))
    names = [site.host_port for site in plan.sites.values()] + [port.interface for port in plan.ports.values()]
    assert max(map(len, names)) <= 15
    assert all(is_name_of(name, "zzzz") for name in names)


def test_too_many_sites_are_refused():
    with pytest.raises(RingroadError, match="1000 sites"):
        NetworkPlan("k3f9", _chain(1000))


@pytest.mark.parametrize("name", ["rk3f9s1", "rk3f9h12", "rk3f9s12-e3", "rk3f9h1-e0"])
def test_names_that_a_run_gives_are_known_as_its_own(name):
    assert is_name_of(name, "k3f9")


@pytest.mark.parametrize(
    "name", ["rk3f8s1", "k3f9s1", "rk3f9s1-eth0", "rk3f9s", "rk3f9s1-e2x", "xrk3f9s1", "rk3f9", "eth0"]
)
def test_names_that_only_look_like_a_runs_are_not(name):
    assert not is_name_of(name, "k3f9")


@given(st.sets(st.from_regex(r"[a-z][a-z0-9]{3}", fullmatch=True)))
def test_a_new_run_id_is_a_letter_and_three_more_and_not_taken(taken):
    run_id = new_run_id(taken)
    assert run_id not in taken
    NetworkPlan(run_id, TRIANGLE.wan)


def test_bridges_are_made_in_one_transaction_secure_labelled_and_with_jumbo_frames():
    commands = [" ".join(command) for command in bridge_commands(TRIANGLE, "netdev")]
    assert "set Bridge rk3f9s1 datapath_type=netdev fail_mode=secure protocols=OpenFlow13" in commands
    assert "set Bridge rk3f9s3 other_config:datapath-id=0000000000000003" in commands
    assert "set Bridge rk3f9s2 external_ids:ringroad=k3f9" in commands
    assert "set Interface rk3f9s1-e3 ofport_request=3 mtu_request=9000" in commands
    assert sum(command.startswith("add-port") for command in commands) == 3 + 6


def test_switches_are_told_a_controller_on_loopback_and_to_try_again_every_second():
    assert controller_commands(["rk3f9s1"], 40721) == [
        ["set-controller", "rk3f9s1", "tcp:127.0.0.1:40721"],
        ["set", "Controller", "rk3f9s1", "max_backoff=1000", "connection_mode=out-of-band"],
    ]


def test_bridges_that_are_gone_already_do_not_stop_their_deletion():
    assert deletion_commands(["rk3f9s1"]) == [["--if-exists", "del-br", "rk3f9s1"]]


def _chain(length):
    names = [f"site {number}" for number in range(1, length + 1)]
    plain = EdgeProperties(1e8)
    links = (Link(a, b, plain, plain) for a, b in pairwise(names))
    return Wan("chain", tuple(map(Site, names)), tuple(links))
