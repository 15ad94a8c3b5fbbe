from __future__ import annotations

import pytest
from openflow_table import PacketLost
from simulation import Simulation, started
from wans import wan_of

from controller.events import (
    CapacityChanged,
    PeriodElapsed,
    Pin,
    PortChanged,
    Reset,
    SwitchLost,
    Unpin,
)
from controller.planner import Decision, step
from controller.policies.shortest import Shortest
from controller.policies.widest import Widest
from controller.records import Move
from topologies import InputError

DIAMOND = {"ab": 100e6, "ac": 100e6, "bc": 100e6, "ad": 100e6, "bd": 100e6}


def test_after_the_start_every_pair_arrives_by_its_shortest_path():
    simulation = started(wan_of(DIAMOND), Widest())

    assert simulation.state.ready
    assert simulation.switches.trace(("a", "b")) == ("a", "b")
    assert simulation.switches.trace(("c", "d")) == ("c", "a", "d")


def test_no_ingress_rule_is_sent_before_every_later_switch_has_confirmed():
    simulation = Simulation(wan_of({"ab": 1e8, "bc": 1e8}), Shortest())
    for site in "ab":
        simulation.connect(site)
    simulation.settle()

    with pytest.raises(PacketLost):
        simulation.switches.trace(("a", "c"))
    assert ("a", "c") not in simulation.state.sent

    simulation.connect("c")
    simulation.settle()

    assert simulation.switches.trace(("a", "c")) == ("a", "b", "c")


def test_a_move_is_one_rule_modified_at_the_ingress():
    simulation = started(wan_of(DIAMOND), Widest())

    decision = simulation.happen(CapacityChanged({("a", "b"): 10e6}))

    assert decision.moves == (Move(("a", "b"), ("a", "b"), ("a", "c", "b")),)
    assert [(batch.site, [change.operation for change in batch.changes]) for batch in decision.batches] == [
        ("a", ["modify"])
    ]


def test_many_capacities_in_one_message_are_one_decision():
    simulation = started(wan_of(DIAMOND), Widest())

    decision = simulation.happen(CapacityChanged({("a", "b"): 10e6, ("c", "b"): 20e6}))

    # a→b goes by d. c→b: 20 directly, min(100, 10) by a, 100 by a and d.
    assert {move.pair: move.after for move in decision.moves} == {
        ("a", "b"): ("a", "d", "b"),
        ("c", "b"): ("c", "a", "d", "b"),
    }


def test_a_port_that_goes_down_moves_pairs_in_both_directions_at_once():
    simulation = started(wan_of(DIAMOND), Widest())

    decision = simulation.happen(PortChanged(("a", "b"), up=False))

    assert {("a", "b"), ("b", "a")} <= {move.pair for move in decision.moves}


def test_the_static_arm_stays_on_a_link_that_is_down():
    simulation = started(wan_of(DIAMOND), Shortest())

    decision = simulation.happen(PortChanged(("a", "b"), up=False))

    assert decision == Decision()


def test_before_the_start_is_over_the_policy_is_not_asked():
    simulation = Simulation(wan_of(DIAMOND), Widest())

    decision = simulation.happen(CapacityChanged({("a", "b"): 10e6}))

    assert decision.moves == ()


def test_a_pinned_pair_is_installed_tail_first_and_then_stays_whatever_the_policy_wants():
    simulation = started(wan_of(DIAMOND), Widest(), tunnels=1)
    route = ("c", "a", "d", "b")

    decision = simulation.happen(Pin(("c", "b"), route))

    assert {batch.site for batch in decision.batches if batch.tags} >= {"a", "d", "b"}
    assert not any(batch.ingress for batch in decision.batches)
    assert simulation.switches.trace(("c", "b")) == ("c", "b")
    simulation.settle()
    assert simulation.switches.trace(("c", "b")) == route
    assert simulation.happen(CapacityChanged({("a", "d"): 1e6})).moves == ()


def test_an_unpinned_pair_is_back_on_its_shortest_path():
    simulation = started(wan_of(DIAMOND), Shortest())
    simulation.happen(Pin(("a", "b"), ("a", "d", "b")))
    simulation.settle()

    simulation.happen(Unpin(("a", "b")))
    simulation.settle()

    assert simulation.switches.trace(("a", "b")) == ("a", "b")


def test_reset_brings_every_pair_back_to_its_shortest_path_under_the_new_policy():
    simulation = started(wan_of(DIAMOND), Widest())
    simulation.happen(CapacityChanged({("a", "b"): 10e6}))
    simulation.happen(Pin(("c", "d"), ("c", "b", "d")))
    simulation.settle()

    simulation.happen(Reset(Shortest(), {("a", "b"): 100e6}))
    simulation.settle()

    assert simulation.state.pinned == frozenset()
    assert simulation.state.capacities_bps["a", "b"] == 100e6
    for pair, tunnels in simulation.state.network.plan.tunnels.items():
        assert simulation.switches.trace(pair) == tunnels[0].route


def test_pairs_seen_to_send_weigh_on_the_next_decision():
    # Both directions of nothing else: a→b and c→b send; ab is narrow, so a→b takes cb, and c→b has to make way.
    simulation = started(wan_of(DIAMOND), Widest())
    idle = dict.fromkeys(simulation.state.wanted, 0)
    simulation.happen(PeriodElapsed(idle), now=1.0)
    simulation.happen(PeriodElapsed({**idle, ("a", "b"): 10**6, ("c", "b"): 10**6}), now=1.5)

    simulation.happen(CapacityChanged({("a", "b"): 10e6}))
    simulation.settle()

    assert simulation.switches.trace(("a", "b")) == ("a", "c", "b")
    assert simulation.switches.trace(("c", "b")) == ("c", "a", "d", "b")


def test_a_switch_that_comes_back_empty_gets_every_rule_again():
    simulation = started(wan_of(DIAMOND), Widest())
    simulation.happen(CapacityChanged({("a", "b"): 10e6}))
    simulation.settle()

    simulation.switches.lose("a", empty=True)
    simulation.happen(SwitchLost("a"))
    assert not simulation.state.ready
    simulation.connect("a")
    simulation.settle()

    assert simulation.state.ready
    assert simulation.switches.trace(("a", "b")) == ("a", "c", "b")
    assert simulation.switches.trace(("d", "c")) == ("d", "a", "c")


def test_a_switch_that_is_away_keeps_its_pairs_and_gets_no_new_ones():
    simulation = started(wan_of(DIAMOND), Widest())
    simulation.switches.lose("c")
    simulation.happen(SwitchLost("c"))

    decision = simulation.happen(CapacityChanged({("a", "b"): 10e6, ("c", "b"): 10e6}))

    assert {move.pair: move.after for move in decision.moves} == {("a", "b"): ("a", "d", "b")}


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (CapacityChanged({("a", "z"): 1e6}), "no site 'z'"),
        (CapacityChanged({("c", "d"): 1e6}), "no link joins 'c' and 'd'"),
        (CapacityChanged({("a", "b"): -1.0}), "not negative"),
        (CapacityChanged({("a", "b"): float("nan")}), "not negative"),
        (Pin(("a", "z"), ("a", "z")), "no site 'z'"),
        (Pin(("a", "a"), ("a", "a")), "no tunnels for this pair"),
        (Pin(("a", "b"), ("a", "b", "c")), "starts and ends"),
        (Unpin(("b", "b")), "no tunnels for this pair"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(event, complaint):
    simulation = started(wan_of(DIAMOND), Widest())

    with pytest.raises(InputError, match=complaint):
        step(simulation.state, event, 0.0)


class OffTheMap:
    """A policy that answers with a path that no tunnel takes."""

    def decide(self, view, now):
        return {**view.routing, ("a", "b"): ("a", "x", "b")}


def test_a_policy_that_invents_a_path_is_named_once_and_moves_nothing():
    simulation = started(wan_of(DIAMOND), OffTheMap())

    first = simulation.happen(PeriodElapsed({}))
    second = simulation.happen(PeriodElapsed({}))

    assert "OffTheMap failed, routes stay: ('a', 'x', 'b') is not among the candidates of a-b" in first.fault
    assert (first.moves, second.moves, second.fault) == ((), (), "")
