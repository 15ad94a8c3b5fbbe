"""Routes change without loss: every pair is traced after every single message, in whatever order switches work."""

from __future__ import annotations

from collections.abc import Callable

import networkx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from openflow_table import Refused
from simulation import Simulation, started
from wans import random_wans, wan_of

from controller import adoption, planner, state
from controller.adoption import DRAIN_S
from controller.events import (
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
from controller.policies.shortest import Shortest
from controller.policies.widest import Widest
from controller.tunnels import plan_tunnels
from controller.view import Pair, Route
from topologies import Edge, Wan

DIAMOND = {"ab": 100e6, "ac": 100e6, "bc": 100e6, "ad": 100e6, "bd": 100e6}
TRIANGLE = {"ab": 1e8, "bc": 1e8, "ac": 1e8}


class Watched:
    """A simulation in which every pair is traced after every message.

    A pair has to arrive by a path that it was wanted on since all was last at rest. With links
    down it has to arrive, by whatever way, as long as `protected` says so; it may never loop.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.allowed: dict[Pair, set[Route]] = {pair: set() for pair in simulation.state.wanted}
        self.protected: Callable[[Pair], bool] | None = None
        self.check()

    def happen(self, event: Event, now: float = 0.0) -> None:
        self.simulation.happen(event, now)
        self.check()

    def connect(self, site: str) -> None:
        self.simulation.connect(site)
        self.check()

    def work(self, draw: st.DataObject, most: int) -> None:
        for _ in range(draw.draw(st.integers(0, most))):
            busy = self.simulation.switches.busy()
            if busy:
                self.simulation.work(draw.draw(st.sampled_from(busy)))
                self.check()

    def settle(self, draw: st.DataObject) -> None:
        while busy := self.simulation.switches.busy():
            self.simulation.work(draw.draw(st.sampled_from(busy)))
            self.check()

    def check(self) -> None:
        for pair, tunnel in self.simulation.state.wanted.items():
            self.allowed[pair].add(tunnel.route)
            route = self.simulation.route(pair)
            if self.protected is None:
                assert route in self.allowed[pair], f"{pair} goes {route}, not by one of {self.allowed[pair]}"
            elif self.protected(pair):
                assert route is not None, f"{pair} is lost"
            if route == tunnel.route and not self.simulation.switches.busy():
                self.allowed[pair] = {route}


def _event(draw: st.DataObject, simulation: Simulation) -> Event:
    edge = draw.draw(st.sampled_from(list(simulation.wan.edges)))
    pair = draw.draw(st.sampled_from(list(simulation.state.wanted)))
    route = draw.draw(st.sampled_from([tunnel.route for tunnel in plan_tunnels(simulation.wan, 6).tunnels[pair]]))
    return draw.draw(
        st.sampled_from(
            [
                CapacityChanged({edge: draw.draw(st.integers(0, 200)) * 1e6}),
                PortChanged(edge, draw.draw(st.booleans())),
                Pin(pair, route),
                Unpin(pair),
                Reset(Widest(), {}, draw.draw(st.sampled_from([None, True, False]))),
                PeriodElapsed({}),
                SwitchLost(edge[0]),
                SwitchConnected(edge[0]),
            ]
        )
    )


def _happen(watched: Watched, event: Event, now: float) -> None:
    if isinstance(event, SwitchConnected):
        watched.connect(event.site)
        return
    if isinstance(event, SwitchLost):
        watched.simulation.switches.lose(event.site)
    watched.happen(event, now)


def _reconnect_all(watched: Watched) -> None:
    simulation = watched.simulation
    for site in sorted(simulation.network.sites - simulation.state.connected):
        watched.connect(site)


def _holds_nothing_else(simulation: Simulation) -> bool:
    """Whether the switches hold the rules that the controller believes in, and not one more."""
    tables = simulation.switches.tables.values()
    rules, groups = sum(len(table.rules) for table in tables), sum(len(table.groups) for table in tables)
    return (rules, groups) == (simulation.state.rules + len(tables), simulation.state.groups)


@settings(deadline=None, max_examples=150)
@given(random_wans(5), st.data())
def test_every_pair_arrives_by_its_old_path_or_its_new_one_after_every_single_message(wan: Wan, data: st.DataObject):
    watched = Watched(started(wan, Widest()))

    for now in range(data.draw(st.integers(1, 12))):
        _happen(watched, _event(data, watched.simulation), float(now))
        watched.work(data, 10)

    _reconnect_all(watched)
    watched.settle(data)
    assert watched.simulation.state.ready
    for pair, tunnel in watched.simulation.state.wanted.items():
        assert watched.simulation.route(pair) == tunnel.route


def _still_joined(wan: Wan, broken: Edge) -> Callable[[Pair], bool]:
    graph = networkx.Graph(list(wan.edges))
    graph.remove_edge(*broken)
    parts = list(networkx.connected_components(graph))
    return lambda pair: any(set(pair) <= part for part in parts)


def _announce(watched: Watched, data: st.DataObject, link: Edge, up: bool) -> None:
    """Both ends say so, at any time between other messages."""
    for edge in data.draw(st.permutations([link, link[::-1]])):
        watched.work(data, 6)
        if edge[0] in watched.simulation.state.connected:
            watched.happen(PortChanged(edge, up))


@settings(deadline=None, max_examples=150)
@given(random_wans(6), st.sampled_from([Widest(), Shortest()]), st.data())
def test_a_link_that_fails_costs_no_pair_its_path_that_has_another_at_no_time(wan, policy, data: st.DataObject):
    watched = Watched(started(wan, policy))
    simulation = watched.simulation

    for now in range(1, 1 + data.draw(st.integers(1, 3))):
        link = data.draw(st.sampled_from(list(wan.edges)))
        watched.protected = _still_joined(wan, link)
        simulation.switches.fail(link)
        watched.check()
        _announce(watched, data, link, up=False)
        edge = data.draw(st.sampled_from(list(wan.edges)))
        watched.happen(CapacityChanged({edge: data.draw(st.integers(1, 200)) * 1e6}))
        watched.settle(data)
        watched.happen(PeriodElapsed({}), now * 100.0)

        simulation.switches.heal(link)
        watched.check()
        _announce(watched, data, link, up=True)
        watched.settle(data)
        for later in (10.0, 20.0):
            watched.happen(PeriodElapsed({}), now * 100.0 + later)
            watched.settle(data)
        assert simulation.state.ready
        assert _holds_nothing_else(simulation)


@settings(deadline=None, max_examples=100)
@given(random_wans(6), st.data())
def test_whatever_fails_and_however_much_nothing_ever_loops(wan: Wan, data: st.DataObject):
    watched = Watched(started(wan, Widest()))
    watched.protected = lambda pair: False
    links = list(wan.edges)

    for now in range(data.draw(st.integers(1, 8))):
        link, up = data.draw(st.sampled_from(links)), data.draw(st.booleans())
        (watched.simulation.switches.heal if up else watched.simulation.switches.fail)(link)
        watched.check()
        if data.draw(st.booleans()):
            _announce(watched, data, link, up)
        _happen(watched, _event(data, watched.simulation), now * 10.0)
        watched.work(data, 8)


@settings(deadline=None, max_examples=100)
@given(random_wans(5), st.sampled_from([None, 1, 2]), st.data())
def test_a_controller_that_starts_again_loses_no_packet_and_moves_no_pair(wan: Wan, more, data: st.DataObject):
    before = started(wan, Widest())
    watched = Watched(before)
    for now in range(data.draw(st.integers(0, 6))):
        _happen(watched, _event(data, before), float(now))
        watched.work(data, 10)
    routes = {pair: before.route(pair) for pair in before.state.wanted}

    after = before.restarted(tunnels=more and 3 + more)
    assume(more is None or after.network.plan.version != before.network.plan.version)
    planned = {pair: {tunnel.route for tunnel in tunnels} for pair, tunnels in before.network.plan.tunnels.items()}
    watched = Watched.__new__(Watched)
    watched.simulation, watched.protected = after, None
    watched.allowed = {pair: {route} for pair, route in routes.items()}
    for site in data.draw(st.permutations(sorted(after.network.sites))):
        watched.connect(site)
        watched.work(data, 10)
    watched.settle(data)

    assert after.state.ready
    if more is None:
        assert all(after.route(pair) == route for pair, route in routes.items() if route in planned[pair])
    for now in (1.0, 1.0 + DRAIN_S, 1.0 + 2 * DRAIN_S):
        watched.happen(PeriodElapsed({}), now)
        watched.settle(data)
    assert after.state.ready
    assert _holds_nothing_else(after)


def test_a_controller_that_starts_again_sends_nothing_where_all_is_right():
    before = started(wan_of(DIAMOND), Widest())
    before.happen(CapacityChanged({("a", "b"): 10e6}))
    before.settle()
    after = before.restarted()

    for site in "abcd":
        after.connect(site)

    assert after.switches.busy() == []
    assert after.state.ready
    assert after.route(("a", "b")) == ("a", "c", "b")


def test_what_was_tampered_with_is_put_right_and_strangers_go():
    simulation = started(wan_of(DIAMOND), Widest())
    table = simulation.switches.tables["a"]
    tampered = simulation.route(("c", "d"))
    ours = next(rule for rule in table.rules.values() if rule.priority == 100)
    key = (ours.priority, ours.match)
    table.rules[key] = type(ours)(100, ours.match, (), ours.cookie)
    stranger = type(ours)(77, type(ours.match)(others=(("eth_type", 0x800),)), (), ours.cookie)
    table.rules[77, stranger.match] = stranger
    after = simulation.restarted()

    after.start()
    after.drain()

    assert table.rules[key] == ours
    assert stranger not in table.rules.values()
    assert after.route(("c", "d")) == tampered


# What follows shows that the tracing would notice: each breaks the order in one way.


def _always_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state.State, "is_whole", lambda self, carrier: True)


def test_an_ingress_rule_before_the_rest_of_the_path_is_noticed(monkeypatch: pytest.MonkeyPatch):
    simulation = started(wan_of(DIAMOND), Shortest(), tunnels=1)
    _always_whole(monkeypatch)
    watched = Watched(simulation)

    watched.happen(Pin(("c", "b"), ("c", "a", "d", "b")))

    with pytest.raises(AssertionError, match="goes None"):
        while simulation.switches.queues["c"]:
            simulation.work("c")
            watched.check()


def test_a_group_that_turns_to_a_detour_before_that_is_whole_is_noticed(monkeypatch: pytest.MonkeyPatch):
    # a→b has its detour by c. With bc down it should have one by d instead, if that were installed first.
    simulation = started(wan_of(DIAMOND), Shortest())
    monkeypatch.setattr(state.State, "inner_settled", property(lambda self: True))
    _always_whole(monkeypatch)
    simulation.switches.fail(("b", "c"))
    simulation.happen(PortChanged(("b", "c"), up=False))
    while simulation.switches.queues["a"]:
        simulation.work("a")

    simulation.switches.fail(("a", "b"))

    assert simulation.route(("a", "b")) is None


def test_in_the_right_order_the_same_failures_lose_nothing():
    simulation = started(wan_of(DIAMOND), Shortest())
    assert simulation.state.detours[("a", "b"), "b"].route == ("a", "c", "b")
    simulation.switches.fail(("b", "c"))
    simulation.happen(PortChanged(("b", "c"), up=False))
    simulation.settle()

    simulation.switches.fail(("a", "b"))

    assert simulation.route(("a", "b")) == ("a", "d", "b")


def test_rules_before_their_groups_are_refused():
    simulation = Simulation(wan_of(TRIANGLE), Widest())
    simulation.state, decision = planner.step(simulation.state, SwitchConnected("b"), 0.0)
    for batch in reversed(decision.batches):
        simulation.switches.send(batch)

    with pytest.raises(Refused, match="no group"):
        simulation.settle()


def test_deleting_before_the_move_is_noticed():
    simulation = started(wan_of(DIAMOND), Shortest(), tunnels=1)
    simulation.happen(Pin(("c", "b"), ("c", "a", "d", "b")))
    simulation.settle()
    watched = Watched(simulation)
    extra = simulation.state.extra_tunnels[0]
    simulation.happen(Unpin(("c", "b")))

    _, batches = adoption.delete_carriers(simulation.state, [extra])
    for batch in batches:
        for change in batch.changes:
            simulation.switches.tables[batch.site].apply(change)

    with pytest.raises(AssertionError, match="goes None"):
        watched.check()


def test_without_the_drain_a_packet_under_way_would_be_lost():
    """Traces are of an instant; what is under way is why nothing is deleted sooner than `DRAIN_S` after the move."""
    simulation = started(wan_of(DIAMOND), Shortest(), tunnels=1)
    simulation.happen(Pin(("c", "b"), ("c", "a", "d", "b")))
    simulation.settle()
    simulation.happen(Unpin(("c", "b")))
    simulation.settle()
    (extra,) = simulation.state.extra_tunnels

    def _installed() -> bool:
        return any(rule.match.eth_dst == extra.tag for rule in simulation.switches.tables["d"].rules.values())

    simulation.happen(PeriodElapsed({}), 5.0)
    simulation.happen(PeriodElapsed({}), 5.0 + DRAIN_S / 2)
    simulation.settle()
    assert _installed()

    simulation.happen(PeriodElapsed({}), 5.0 + DRAIN_S)
    simulation.settle()
    assert not _installed()
