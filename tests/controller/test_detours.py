from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import Simulation, started
from wans import random_wans, wan_of, wiring_of

from controller.detours import Around, Detour, detour_rules, group_of
from controller.events import PortChanged, Reset
from controller.groups import GroupKey, keys_of, number_of
from controller.policies.shortest import Shortest
from controller.policies.widest import Widest
from controller.rules import Bucket, Group, Match, Output, OutputBack, Rule, SetDestination
from controller.settings import ControllerSettings
from topologies import Wan

# a–b–c in a row, and a longer way a–d–e–c; b and d are joined too.
LADDER = {"ab": 1e8, "bc": 1e8, "ad": 1e8, "de": 1e8, "ce": 1e8, "bd": 1e8}


def _around(rates: dict[str, float]) -> Around:
    return Around(dict.fromkeys(wan_of(rates).edges, 1.0))


def test_a_detour_leaves_out_the_link_and_the_site_beyond_it():
    # From a to c with a–b broken: a–d–b–c would be as short, but b may be what has failed.
    assert _around(LADDER).route((("a", "b"), "c")) == ("a", "d", "e", "c")


def test_to_the_site_beyond_it_leaves_out_the_link_only():
    assert _around(LADDER).route((("a", "b"), "b")) == ("a", "d", "b")


def test_it_goes_through_the_site_beyond_where_there_is_no_other_way():
    # c hangs on b alone.
    assert _around({"ab": 1e8, "bc": 1e8, "ad": 1e8, "bd": 1e8}).route((("a", "b"), "c")) == ("a", "d", "b", "c")


def test_a_link_that_is_the_only_way_has_no_detour():
    around = _around({"ab": 1e8, "bc": 1e8, "ac": 1e8, "cd": 1e8})

    assert around.route((("c", "d"), "d")) is None
    assert around.route((("a", "b"), "d")) == ("a", "c", "d")


def test_links_that_are_down_are_left_out_too():
    down = frozenset({("d", "e"), ("e", "d")})

    assert _around(LADDER).route((("a", "b"), "c"), down) == ("a", "d", "b", "c")


@settings(deadline=None)
@given(random_wans(), st.data())
def test_every_detour_is_a_simple_path_without_its_link_and_avoids_the_next_site_if_it_can(wan: Wan, data):
    around = Around(dict.fromkeys(wan.edges, 1.0))
    edge = data.draw(st.sampled_from(list(wan.edges)))
    target = data.draw(st.sampled_from([site.name for site in wan.sites if site.name != edge[0]]))

    route = around.route((edge, target))

    if route is not None:
        assert (route[0], route[-1]) == (edge[0], target)
        assert len(set(route)) == len(route)
        assert set(pairwise(route)) <= wan.edges.keys() - {edge, edge[::-1]}
        if edge[1] in route[:-1]:
            without = {e: 1.0 for e in wan.edges if edge[1] not in e} | {(s.name, s.name): 1.0 for s in wan.sites}
            assert Around(without).route((edge, target)) is None


def test_a_group_is_the_link_first_and_then_the_detour_under_its_own_tag():
    wiring = wiring_of(wan_of(LADDER))
    detour = Detour((("a", "b"), "c"), version=1, number=258, variant=3, route=("a", "d", "e", "c"))

    # At a: b is port 1, d port 2. Neighbor 0 of two, from the host, target 2 of five.
    assert group_of(GroupKey(("a", "b"), "c", None), detour, wiring, 1) == Group(
        0x5_001_0002,
        (
            Bucket(1, (Output(1),)),
            Bucket(2, (SetDestination("0e:01:00:01:02:03"), Output(2))),
        ),
    )
    assert group_of(GroupKey(("a", "b"), "c", None), None, wiring, 1).buckets == (Bucket(None, (Output(1),)),)


def test_a_detour_that_leads_back_says_so_since_a_switch_sends_nothing_back_by_itself():
    wiring = wiring_of(wan_of(LADDER))
    detour = Detour((("a", "b"), "c"), 1, 0, 0, ("a", "d", "e", "c"))

    group = group_of(GroupKey(("a", "b"), "c", previous="d"), detour, wiring, 1)

    assert group.buckets[1].actions == (SetDestination(detour.tag), OutputBack())


def test_the_rules_of_a_detour_send_to_ports_and_restore_the_hosts_address_at_the_end():
    wiring = wiring_of(wan_of(LADDER))
    detour = Detour((("a", "b"), "c"), version=1, number=258, variant=3, route=("a", "d", "e", "c"))

    match = Match("0e:01:00:01:02:03")
    assert detour_rules(detour, wiring) == {
        "d": Rule(100, match, (Output(wiring.ports["d", "e"]),), 0x52_4_001_000102_03_00),
        "e": Rule(100, match, (Output(wiring.ports["e", "c"]),), 0x52_4_001_000102_03_00),
        "c": Rule(100, match, (SetDestination("02:00:00:00:00:03"), Output(100)), 0x52_5_001_000102_03_00),
    }


@settings(deadline=None)
@given(random_wans())
def test_no_two_groups_of_a_switch_share_a_number(wan: Wan):
    wiring = wiring_of(wan)
    keys = {
        GroupKey((site, after), target.name, previous)
        for site, after in wan.edges
        for target in wan.sites
        for previous in (None, *wan.neighbors(site))
    }

    assert len({(key.site, number_of(key, wiring, 1)) for key in keys}) == len(keys)


def test_the_groups_of_a_route_know_where_packets_come_from():
    assert keys_of(("a", "b", "c")) == (GroupKey(("a", "b"), "c", None), GroupKey(("b", "c"), "c", "a"))


def test_a_link_that_fails_is_left_before_the_controller_knows():
    simulation = started(wan_of(LADDER), Shortest())
    assert simulation.route(("a", "c")) == ("a", "b", "c")

    simulation.switches.fail(("b", "c"))

    # b sends back by a: away from c, and away from where it came.
    assert simulation.route(("a", "c")) == ("a", "b", "d", "e", "c")
    assert simulation.switches.busy() == []


def test_a_detour_may_lead_back_where_the_packet_came_from():
    simulation = started(wan_of({"ab": 1e8, "bc": 1e8, "ad": 1e8, "de": 1e8, "ce": 1e8}), Shortest())

    simulation.switches.fail(("b", "c"))

    assert simulation.route(("a", "c")) == ("a", "b", "a", "d", "e", "c")


def test_the_controller_then_moves_the_pair_from_its_ingress():
    simulation = started(wan_of(LADDER), Widest())
    simulation.switches.fail(("b", "c"))

    simulation.happen(PortChanged(("b", "c"), up=False))
    simulation.settle()

    assert simulation.route(("a", "c")) == ("a", "d", "e", "c")


def test_detours_over_a_link_that_is_down_are_replaced_and_come_back_with_it():
    simulation = started(wan_of(LADDER), Shortest())
    hop = (("a", "b"), "c")
    assert simulation.state.detours[hop].route == ("a", "d", "e", "c")

    simulation.happen(PortChanged(("d", "e"), up=False))
    simulation.settle()
    simulation.switches.fail(("d", "e"))
    simulation.switches.fail(("a", "b"))
    assert simulation.route(("a", "c")) == ("a", "d", "b", "c")

    simulation.happen(PortChanged(("d", "e"), up=True))
    simulation.settle()
    assert simulation.state.detours[hop].route == ("a", "d", "e", "c")
    simulation.drain()
    assert simulation.state.stand_ins == {}


def test_the_policy_that_never_moves_has_no_detours_unless_a_person_asks_for_them():
    assert not ControllerSettings().detours_with("shortest")
    assert ControllerSettings().detours_with("widest")
    assert ControllerSettings(detours=True).detours_with("shortest")
    assert not ControllerSettings(detours=False).detours_with("widest")


def test_without_detours_the_packets_of_a_link_that_is_down_are_lost():
    simulation = started(wan_of(LADDER), Shortest(), detours=False)

    simulation.switches.fail(("b", "c"))

    assert simulation.route(("a", "c")) is None


def test_a_reset_switches_detours_off_and_on_by_groups_alone():
    simulation = started(wan_of(LADDER), Widest())

    decision = simulation.happen(Reset(Shortest(), {}, detours=False))
    assert {type(change).__name__ for batch in decision.batches for change in batch.changes} == {"GroupChange"}
    simulation.settle()
    simulation.switches.fail(("b", "c"))
    assert simulation.route(("a", "c")) is None

    simulation.happen(Reset(Widest(), {}, detours=True))
    simulation.settle()
    assert simulation.route(("a", "c")) is not None


@pytest.mark.parametrize("lost", ["b", "d"])
def test_while_a_switch_is_away_detours_stay_as_they_are(lost: str):
    simulation: Simulation = started(wan_of(LADDER), Shortest())
    groups = {site: dict(table.groups) for site, table in simulation.switches.tables.items()}
    simulation.connect(lost)
    simulation.settle()

    assert {site: dict(table.groups) for site, table in simulation.switches.tables.items()} == groups
    assert simulation.state.ready
