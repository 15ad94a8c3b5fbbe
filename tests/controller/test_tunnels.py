from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wans import random_wans, wan_of, wiring_of

from controller.rules import Match, Output, OutputGroup, Rule, SetDestination
from controller.tunnels import (
    Tunnel,
    check_route,
    edge_lengths,
    extra_tunnel,
    ingress_rule,
    inner_rules,
    pairs_of,
    plan_tunnels,
)
from topologies import EdgeProperties, InputError, Link, Site, Wan

SQUARE = {"ab": 1e8, "bc": 1e8, "cd": 1e8, "ad": 1e8}


def _with_delays(delays_ms: dict[str, float]) -> Wan:
    names = sorted(set("".join(delays_ms)))
    links = (
        Link(a, b, EdgeProperties(1e8, ms / 1e3), EdgeProperties(1e8, ms / 1e3)) for (a, b), ms in delays_ms.items()
    )
    return Wan("delays", tuple(map(Site, names)), tuple(links))


def test_without_delays_or_coordinates_the_shortest_path_has_the_fewest_hops():
    routes = [tunnel.route for tunnel in plan_tunnels(wan_of(SQUARE), 4).tunnels["a", "b"]]

    assert routes == [("a", "b"), ("a", "d", "c", "b")]


def test_with_a_delay_on_every_link_the_shortest_path_has_the_least_delay():
    # Directly 30 ms; by c 10 + 10 = 20 ms; by d 10 + 25 = 35 ms.
    wan = _with_delays({"ab": 30, "ac": 10, "bc": 10, "ad": 10, "bd": 25})

    routes = [tunnel.route for tunnel in plan_tunnels(wan, 3).tunnels["a", "b"]]

    assert routes == [("a", "c", "b"), ("a", "b"), ("a", "d", "b")]


def test_of_two_paths_of_equal_delay_the_one_with_fewer_hops_is_first():
    wan = _with_delays({"ab": 20, "ac": 10, "bc": 10})

    assert [t.route for t in plan_tunnels(wan, 2).tunnels["a", "b"]] == [("a", "b"), ("a", "c", "b")]


def test_of_paths_that_are_equal_the_first_by_name_is_kept():
    # Four ways of two hops from a to f, given in an order that is not the alphabet's.
    wan = wan_of({"ae": 1e8, "ef": 1e8, "ac": 1e8, "cf": 1e8, "ab": 1e8, "bf": 1e8, "ad": 1e8, "df": 1e8})

    assert [t.route for t in plan_tunnels(wan, 2).tunnels["a", "f"]] == [("a", "b", "f"), ("a", "c", "f")]


def test_with_coordinates_everywhere_lengths_are_kilometres_over_the_globe():
    # From the equator to the pole is a quarter of 2π · 6371 km = 10007.5 km.
    pole, equator = Site("pole", latitude=90, longitude=0), Site("equator", latitude=0, longitude=140)
    wan = Wan("globe", (pole, equator), (Link("pole", "equator", EdgeProperties(1e8), EdgeProperties(1e8)),))

    assert edge_lengths(wan)["equator", "pole"] == pytest.approx(10007.5, abs=0.1)


def test_pairs_are_those_of_dcs_and_neighbors_that_a_fidelity_gate_wants():
    wan = wan_of({"ab": 1e8, "bc": 1e8}, transit="b")

    assert pairs_of(wan) == (("a", "c"), ("c", "a"), ("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"))
    assert [t.route for t in plan_tunnels(wan, 4).tunnels["b", "c"]] == [("b", "c")]


def test_the_rules_of_a_tunnel_rewrite_at_the_ingress_forward_by_tag_and_restore_at_the_egress():
    wan = wan_of({"ab": 1e8, "bc": 1e8})
    wiring = wiring_of(wan)
    tunnel = Tunnel(("a", "c"), pair_number=258, number=3, route=("a", "b", "c"))

    # Groups: 5, version 1, then ((neighbor by name · (1 + links of the site)) + where from) · 3 sites + target.
    assert tunnel.tag == "0a:01:00:01:02:03"
    assert ingress_rule(tunnel, wiring) == Rule(
        200,
        Match("02:00:00:00:00:03", in_port=100),
        (SetDestination("0a:01:00:01:02:03"), OutputGroup(0x5_001_0000 + (0 * 2 + 0) * 3 + 2)),
        0x52_1_001_000102_00_00,
    )
    assert inner_rules(tunnel, wiring) == {
        "b": Rule(
            100,
            Match("0a:01:00:01:02:03"),
            (OutputGroup(0x5_001_0000 + (1 * 3 + 1) * 3 + 2),),
            0x52_2_001_000102_03_00,
        ),
        "c": Rule(
            100,
            Match("0a:01:00:01:02:03"),
            (SetDestination("02:00:00:00:00:03"), Output(100)),
            0x52_3_001_000102_03_00,
        ),
    }


def test_a_version_of_more_than_a_byte_is_in_tags_cookies_and_groups_alike():
    wan = wan_of({"ab": 1e8, "bc": 1e8})
    tunnel = Tunnel(("a", "c"), pair_number=258, number=3, route=("a", "b", "c"), version=0xFED)

    # Of the first byte of a MAC address the lowest bits stay a (10): local, unicast, and no host's.
    assert tunnel.tag == "fa:ed:00:01:02:03"
    rule = inner_rules(tunnel, wiring_of(wan))["b"]
    assert rule.cookie == 0x52_2_FED_000102_03_00
    assert rule.actions == (OutputGroup(0x5_FED_0000 + (1 * 3 + 1) * 3 + 2),)


def test_a_plan_has_the_same_version_whenever_it_is_made_and_another_plan_another():
    versions = [plan_tunnels(wan_of(SQUARE), k).version for k in (1, 2, 2)]

    assert versions[1] == versions[2] != versions[0]
    assert all(1 <= version <= 4095 for version in versions)


@pytest.mark.parametrize(
    ("route", "complaint"),
    [
        (("a", "c"), "no link joins 'a' and 'c'"),
        (("a",), "starts and ends with its pair"),
        (("b", "c"), "starts and ends with its pair"),
        (("a", "b", "a", "d", "c"), "passes each site once"),
        (("a", "x", "c"), "no site 'x'"),
    ],
)
def test_a_path_that_cannot_be_is_refused_with_the_reason(route, complaint):
    with pytest.raises(InputError, match=complaint):
        check_route(wan_of(SQUARE), ("a", "c"), route)


def test_a_pair_whose_tags_are_used_up_gets_no_further_path():
    last = Tunnel(("a", "b"), 0, 255, ("a", "b"))

    with pytest.raises(InputError, match="at most 256 paths"):
        extra_tunnel([last], ("a", "d", "c", "b"))


@settings(deadline=None)
@given(random_wans(), st.integers(1, 5))
def test_tunnels_are_the_k_shortest_loop_free_paths_of_each_pair(wan: Wan, k: int):
    plan = plan_tunnels(wan, k)
    names = [site.name for site in wan.sites]

    for (source, target), tunnels in plan.tunnels.items():
        between = [name for name in names if name not in (source, target)]
        ordered = (middle for count in range(len(between) + 1) for middle in permutations(between, count))
        loop_free = ((source, *middle, target) for middle in ordered)
        every = [route for route in loop_free if wan.edges.keys() >= set(pairwise(route))]
        k_here = k if {source, target} <= set(wan.dcs) else 1
        expected = sorted(every, key=lambda route: (len(route), route))[:k_here]
        assert [tunnel.route for tunnel in tunnels] == expected


@settings(deadline=None)
@given(random_wans())
def test_no_two_tunnels_share_a_tag_and_no_tag_is_a_host(wan: Wan):
    tags = [tunnel.tag for tunnels in plan_tunnels(wan, 4).tunnels.values() for tunnel in tunnels]

    assert len(set(tags)) == len(tags)
    assert not set(tags) & {host.mac for host in wiring_of(wan).hosts.values()}
