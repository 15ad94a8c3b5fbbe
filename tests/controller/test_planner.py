from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openflow_table import PacketLost, Switchboard
from wans import random_wans, wan_of, wiring_of

from controller.events import (
    BatchConfirmed,
    CapacityChanged,
    Event,
    PeriodElapsed,
    Pin,
    PortChanged,
    Reset,
    SwitchConnected,
    SwitchLost,
    Unpin,
)
from controller.planner import Decision, Network, State, initial_state, step
from controller.policies.shortest import Shortest
from controller.policies.widest import Widest
from controller.records import Move
from controller.tunnels import plan_tunnels
from controller.view import Policy
from topologies import InputError, Wan

DIAMOND = {"ab": 100e6, "ac": 100e6, "bc": 100e6, "ad": 100e6, "bd": 100e6}


class Simulation:
    """A planner and its switches: events in, and as many messages worked on as the test wants."""

    def __init__(self, wan: Wan, policy: Policy, tunnels: int = 3) -> None:
        self.wan = wan
        self.switches = Switchboard(wiring_of(wan))
        self.state = initial_state(Network(wan, self.switches.wiring, plan_tunnels(wan, tunnels)), policy)

    def happen(self, event: Event, now: float = 0.0) -> Decision:
        self.state, decision = step(self.state, event, now)
        for batch in decision.batches:
            self.switches.send(batch)
        return decision

    def work(self, site: str) -> None:
        finished = self.switches.work(site)
        if finished:
            self.happen(BatchConfirmed(finished))

    def settle(self) -> None:
        while busy := self.switches.busy():
            self.work(busy[0])

    def start(self) -> None:
        for site in self.wan.sites:
            self.happen(SwitchConnected(site.name))
        self.settle()


def _started(wan: Wan, policy: Policy, tunnels: int = 3) -> Simulation:
    simulation = Simulation(wan, policy, tunnels)
    simulation.start()
    return simulation


def test_after_the_start_every_pair_arrives_by_its_shortest_path():
    simulation = _started(wan_of(DIAMOND), Widest())

    assert simulation.state.ready
    assert simulation.switches.trace(("a", "b")) == ("a", "b")
    assert simulation.switches.trace(("c", "d")) == ("c", "a", "d")


def test_no_ingress_rule_is_sent_before_every_later_switch_has_confirmed():
    simulation = Simulation(wan_of({"ab": 1e8, "bc": 1e8}), Shortest())
    for site in "ab":
        simulation.happen(SwitchConnected(site))
    simulation.settle()

    with pytest.raises(PacketLost):
        simulation.switches.trace(("a", "c"))
    assert ("a", "c") not in simulation.state.sent

    simulation.happen(SwitchConnected("c"))
    simulation.settle()

    assert simulation.switches.trace(("a", "c")) == ("a", "b", "c")


def test_a_move_is_one_rule_modified_at_the_ingress():
    simulation = _started(wan_of(DIAMOND), Widest())

    decision = simulation.happen(CapacityChanged({("a", "b"): 10e6}))

    assert decision.moves == (Move(("a", "b"), ("a", "b"), ("a", "c", "b")),)
    assert [(batch.site, [change.operation for change in batch.changes]) for batch in decision.batches] == [
        ("a", ["modify"])
    ]


def test_many_capacities_in_one_message_are_one_decision():
    simulation = _started(wan_of(DIAMOND), Widest())

    decision = simulation.happen(CapacityChanged({("a", "b"): 10e6, ("c", "b"): 20e6}))

    # a→b goes by d. c→b: 20 directly, min(100, 10) by a, 100 by a and d.
    assert {move.pair: move.after for move in decision.moves} == {
        ("a", "b"): ("a", "d", "b"),
        ("c", "b"): ("c", "a", "d", "b"),
    }


def test_a_port_that_goes_down_moves_pairs_in_both_directions_at_once():
    simulation = _started(wan_of(DIAMOND), Widest())

    decision = simulation.happen(PortChanged(("a", "b"), up=False))

    assert {("a", "b"), ("b", "a")} <= {move.pair for move in decision.moves}


def test_the_static_arm_stays_on_a_link_that_is_down():
    simulation = _started(wan_of(DIAMOND), Shortest())

    decision = simulation.happen(PortChanged(("a", "b"), up=False))

    assert decision == Decision()


def test_before_the_start_is_over_the_policy_is_not_asked():
    simulation = Simulation(wan_of(DIAMOND), Widest())

    decision = simulation.happen(CapacityChanged({("a", "b"): 10e6}))

    assert decision.moves == ()


def test_a_pinned_pair_is_installed_tail_first_and_then_stays_whatever_the_policy_wants():
    simulation = _started(wan_of(DIAMOND), Widest(), tunnels=1)
    route = ("c", "a", "d", "b")

    decision = simulation.happen(Pin(("c", "b"), route))

    assert {batch.site for batch in decision.batches} == {"a", "d", "b"}
    assert simulation.switches.trace(("c", "b")) == ("c", "b")
    simulation.settle()
    assert simulation.switches.trace(("c", "b")) == route
    assert simulation.happen(CapacityChanged({("a", "d"): 1e6})).moves == ()


def test_an_unpinned_pair_is_back_on_its_shortest_path():
    simulation = _started(wan_of(DIAMOND), Shortest())
    simulation.happen(Pin(("a", "b"), ("a", "d", "b")))
    simulation.settle()

    simulation.happen(Unpin(("a", "b")))
    simulation.settle()

    assert simulation.switches.trace(("a", "b")) == ("a", "b")


def test_reset_brings_every_pair_back_to_its_shortest_path_under_the_new_policy():
    simulation = _started(wan_of(DIAMOND), Widest())
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
    simulation = _started(wan_of(DIAMOND), Widest())
    idle = dict.fromkeys(simulation.state.wanted, 0)
    simulation.happen(PeriodElapsed(idle), now=1.0)
    simulation.happen(PeriodElapsed({**idle, ("a", "b"): 10**6, ("c", "b"): 10**6}), now=1.5)

    simulation.happen(CapacityChanged({("a", "b"): 10e6}))
    simulation.settle()

    assert simulation.switches.trace(("a", "b")) == ("a", "c", "b")
    assert simulation.switches.trace(("c", "b")) == ("c", "a", "d", "b")


def test_a_switch_that_comes_back_empty_gets_every_rule_again():
    simulation = _started(wan_of(DIAMOND), Widest())
    simulation.happen(CapacityChanged({("a", "b"): 10e6}))
    simulation.settle()

    simulation.switches.lose("a", empty=True)
    simulation.happen(SwitchLost("a"))
    assert not simulation.state.ready
    simulation.happen(SwitchConnected("a"))
    simulation.settle()

    assert simulation.state.ready
    assert simulation.switches.trace(("a", "b")) == ("a", "c", "b")
    assert simulation.switches.trace(("d", "c")) == ("d", "a", "c")


def test_a_switch_that_is_away_keeps_its_pairs_and_gets_no_new_ones():
    simulation = _started(wan_of(DIAMOND), Widest())
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
    simulation = _started(wan_of(DIAMOND), Widest())

    with pytest.raises(InputError, match=complaint):
        step(simulation.state, event, 0.0)


class OffTheMap:
    """A policy that answers with a path that no tunnel takes."""

    def decide(self, view, now):
        return {**view.routing, ("a", "b"): ("a", "x", "b")}


def test_a_policy_that_invents_a_path_is_named():
    simulation = _started(wan_of(DIAMOND), OffTheMap())

    with pytest.raises(InputError, match="not a candidate"):
        simulation.happen(PeriodElapsed({}))


def _random_event(draw: st.DataObject, simulation: Simulation) -> Event:
    wan, state = simulation.wan, simulation.state
    edge = draw.draw(st.sampled_from(list(wan.edges)))
    pair = draw.draw(st.sampled_from(list(state.wanted)))
    route = draw.draw(st.sampled_from([tunnel.route for tunnel in plan_tunnels(wan, 6).tunnels[pair]]))
    return draw.draw(
        st.sampled_from(
            [
                CapacityChanged({edge: draw.draw(st.integers(0, 200)) * 1e6}),
                PortChanged(edge, draw.draw(st.booleans())),
                Pin(pair, route),
                Unpin(pair),
                Reset(Widest(), {}),
                SwitchLost(edge[0]),
                SwitchConnected(edge[0]),
            ]
        )
    )


@settings(deadline=None, max_examples=150)
@given(random_wans(5), st.data())
def test_once_started_every_pair_arrives_after_every_single_message_in_any_order_of_switches(
    wan: Wan, data: st.DataObject
):
    simulation = _started(wan, Widest())

    for _ in range(data.draw(st.integers(1, 12))):
        event = _random_event(data, simulation)
        if isinstance(event, SwitchLost | SwitchConnected):
            simulation.switches.lose(event.site)
        simulation.happen(event)
        for _ in range(data.draw(st.integers(0, 10))):
            busy = simulation.switches.busy()
            if busy:
                simulation.work(data.draw(st.sampled_from(busy)))
            for pair in simulation.state.wanted:
                simulation.switches.trace(pair)

    for site in simulation.state.network.sites - simulation.state.connected:
        simulation.happen(SwitchConnected(site))
    simulation.settle()
    assert simulation.state.ready
    for pair, tunnel in simulation.state.wanted.items():
        assert simulation.switches.trace(pair) == tunnel.route


@settings(deadline=None, max_examples=60)
@given(random_wans(5), st.data())
def test_the_tracing_notices_when_ingress_rules_go_before_the_rest(wan: Wan, data: st.DataObject):
    """The proof above is worth something only if a wrong order fails it."""
    simulation = _started(wan, Shortest(), tunnels=1)
    pair = data.draw(st.sampled_from(list(simulation.state.wanted)))
    others = [tunnel.route for tunnel in plan_tunnels(wan, 6).tunnels[pair][1:]]
    if not others:
        return
    hasty = replace(simulation.state, inner_confirmed=_all_confirmed(simulation.state, wan))
    simulation.state, decision = step(hasty, Pin(pair, others[0]), 0.0)
    for batch in decision.batches:
        simulation.switches.send(batch)

    while simulation.switches.queues[pair[0]]:
        simulation.switches.work(pair[0])

    with pytest.raises(PacketLost):
        simulation.switches.trace(pair)


def _all_confirmed(state: State, wan: Wan) -> dict[str, frozenset[str]]:
    """As if every switch had confirmed every tunnel that could ever be."""
    tags = frozenset(f"0a:01:00:00:{pair:02x}:{tunnel:02x}" for pair in range(64) for tunnel in range(8))
    return {site.name: tags for site in wan.sites}
