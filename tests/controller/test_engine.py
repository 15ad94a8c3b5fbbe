from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from openflow_table import Switchboard
from wans import wan_of, wiring_of

from controller.engine import Engine
from controller.settings import ControllerConfig, ControllerSettings
from topologies import InputError

DIAMOND = {"ab": 100e6, "ac": 100e6, "bc": 100e6, "ad": 100e6, "bd": 100e6}


class Bench:
    """An engine over switches in memory, with a clock that ticks once each time it is read."""

    def __init__(self, policy: str = "widest") -> None:
        wan = wan_of(DIAMOND)
        config = ControllerConfig(wan, wiring_of(wan), Path("/none"), ControllerSettings(policy))
        self.switches = Switchboard(config.wiring)
        self.published: list[dict] = []
        ticks = count(1000.0)
        self.engine = Engine(config, self.switches, self.published.append, lambda: next(ticks))

    def settle(self) -> None:
        self.switches.settle(self.engine)

    def reconfigurations(self) -> list[dict]:
        return [event for event in self.published if event["event"] == "reconfiguration"]


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    for site in "abcd":
        bench.engine.connected(site, frozenset())
    bench.settle()
    return bench


def test_the_start_is_no_reconfiguration_and_sets_the_period_going(bench: Bench):
    assert bench.engine.state.ready
    assert bench.reconfigurations() == []
    assert bench.switches.period_s == 0.5


def test_a_capacity_drop_is_recorded_with_its_four_times_in_order(bench: Bench):
    number = bench.engine.capacity({("a", "b"): 10e6}, happened_at=900.0)
    bench.settle()

    (event,) = bench.reconfigurations()
    assert (event["number"], event["cause"], event["happened_at"]) == (number, "capacity", 900.0)
    assert event["happened_at"] < event["seen_at"] < event["decided_at"] < event["installed_at"]
    assert event["moves"] == [{"pair": ["a", "b"], "from": ["a", "b"], "to": ["a", "c", "b"]}]


def test_a_capacity_that_moves_nothing_is_no_reconfiguration(bench: Bench):
    assert bench.engine.capacity({("a", "b"): 99e6}, happened_at=900.0) is None
    assert bench.reconfigurations() == []


def test_both_ends_of_a_link_going_down_are_one_reconfiguration_and_two_link_events(bench: Bench):
    bench.engine.port_changed(("a", "b"), up=False)
    bench.engine.port_changed(("b", "a"), up=False)
    bench.engine.port_changed(("b", "a"), up=False)
    bench.settle()

    assert [event["cause"] for event in bench.reconfigurations()] == ["port_status"]
    assert [event["edge"] for event in bench.published if event["event"] == "link"] == [["a", "b"], ["b", "a"]]


def test_a_link_that_lets_nothing_through_is_told_from_one_that_is_down(bench: Bench):
    bench.engine.port_changed(("a", "b"), up=False, cause="blackhole")
    bench.settle()

    assert [event["cause"] for event in bench.published if event["event"] == "link"] == ["blackhole"]
    assert [event["cause"] for event in bench.reconfigurations()] == ["blackhole"]


def test_a_link_that_goes_down_is_called_so_also_if_its_port_is_told_to_be_dead_first(bench: Bench):
    bench.engine.port_changed(("a", "b"), up=False, cause="blackhole")
    bench.engine.port_changed(("a", "b"), up=False)
    bench.settle()

    assert [event["cause"] for event in bench.published if event["event"] == "link"] == ["blackhole", "port_status"]
    assert [event["cause"] for event in bench.reconfigurations()] == ["port_status"]


def test_a_second_switch_of_one_datapath_id_is_told_once(bench: Bench):
    for _ in range(3):
        bench.engine.refuse_duplicate(2)

    assert [event["dpid"] for event in bench.published if event.get("what") == "duplicate"] == [2]


def test_pairs_are_moved_before_detours_are_looked_at(bench: Bench):
    later = []
    bench.switches.defer = later.append
    bench.engine.port_changed(("a", "b"), up=False)
    bench.settle()

    assert bench.switches.trace(("a", "b")) == ("a", "c", "b")
    assert bench.engine.state.owes_detours
    assert len(later) == 1
    later[0]()
    assert not bench.engine.state.owes_detours


def test_a_pin_calls_back_once_the_switches_have_it(bench: Bench):
    done = []

    assert bench.engine.pin(("a", "b"), ("a", "d", "b"), done.append)
    assert done == []
    bench.settle()

    assert [move.after for move in done[0].moves] == [("a", "d", "b")]
    assert not bench.engine.pin(("a", "b"), ("a", "d", "b"), done.append)


def test_a_pin_whose_switch_goes_away_calls_back_as_lost(bench: Bench):
    done = []
    bench.engine.pin(("a", "b"), ("a", "d", "b"), done.append)

    bench.switches.lose("a")
    bench.engine.lost("a")

    assert [(record.installed_at, record.lost) for record in done] == [(None, ("a",))]


def test_a_refused_rule_is_told_and_its_reconfiguration_not_called_installed(bench: Bench):
    done = []
    bench.engine.pin(("a", "b"), ("a", "d", "b"), done.append)
    batch = bench.switches.queues["a"].pop()

    bench.engine.refused(batch, "table full")

    assert done[0].installed_at is None
    assert [event["what"] for event in bench.published if event["event"] == "error"] == [
        "the switch of a refused a rule: table full"
    ]


def test_reset_changes_policy_and_period(bench: Bench):
    bench.engine.capacity({("a", "b"): 10e6}, happened_at=0.0)
    bench.engine.reset("shortest", 2.0, {("a", "b"): 50e6}, lambda record: None)
    bench.settle()

    assert (bench.engine.policy_name, bench.switches.period_s) == ("shortest", 2.0)
    assert bench.switches.trace(("a", "b")) == ("a", "b")
    assert bench.engine.capacity({("a", "b"): 1e6}, happened_at=0.0) is None


def test_a_new_period_leaves_policy_and_routes_as_they_are(bench: Bench):
    bench.engine.capacity({("a", "b"): 10e6}, happened_at=0.0)
    bench.settle()
    policy, route = bench.engine.policy_name, bench.switches.trace(("a", "b"))
    bench.engine.set_period(0.25)
    bench.settle()

    assert (bench.engine.policy_name, bench.switches.period_s) == (policy, 0.25)
    assert bench.switches.trace(("a", "b")) == route
    with pytest.raises(InputError, match="period_s"):
        bench.engine.set_period(0.0)


def test_requests_before_the_start_is_over_are_refused():
    with pytest.raises(InputError, match="not ready"):
        Bench().engine.pin(("a", "b"), ("a", "d", "b"), lambda record: None)


def test_a_switch_of_unknown_datapath_id_is_told_once(bench: Bench):
    for _ in range(3):
        bench.engine.refuse_dpid(77)

    assert [event["dpid"] for event in bench.published if event.get("what") == "refused"] == [77]


def test_ready_is_called_back_at_once_or_when_it_comes():
    bench, calls = Bench(), []
    bench.engine.when_ready(lambda: calls.append("late"))
    for site in "abcd":
        bench.engine.connected(site, frozenset())
    assert calls == []
    bench.settle()

    bench.engine.when_ready(lambda: calls.append("at once"))

    assert calls == ["late", "at once"]
