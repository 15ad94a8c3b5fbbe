"""Who sends: measured or announced, from the event to the move."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from openflow_table import Switchboard
from wans import wan_of, wiring_of

from controller.engine import Engine
from controller.memory import Memory
from controller.planner import view_of
from controller.settings import ControllerConfig, ControllerSettings, config_from_json, config_to_json
from topologies import InputError

AB, CB = ("a", "b"), ("c", "b")
# a→b by c (100) or d (60), c→b by cb alone (c→a is 10 when set so).
NARROW = {"ac": 100e6, "bc": 100e6, "ad": 60e6, "bd": 60e6}


def _engine(**settings) -> tuple[Engine, list[dict]]:
    wan, published = wan_of(NARROW), []
    config = ControllerConfig(wan, wiring_of(wan), Path("/none"), ControllerSettings("maxmin", **settings))
    switches, ticks = Switchboard(config.wiring), count(1000.0, 0.001)
    engine = Engine(config, switches, published.append, lambda: next(ticks))
    for site in "abcd":
        engine.connected(site, frozenset())
    switches.settle(engine)
    engine.capacity({("c", "a"): 10e6}, happened_at=0.0)
    return engine, published


def test_announced_demands_move_paths_at_once_without_a_dwell():
    engine, _ = _engine(demands="announced", dwell_s=100.0)

    number = engine.demands({AB: 1e6, CB: 1e6}, happened_at=900.0)

    assert number is not None
    view = view_of(engine.state)
    assert (view.active, view.demands_bytes) == (frozenset({AB, CB}), {AB: 1e6, CB: 1e6})
    assert view.routing[AB] == ("a", "d", "b")


def test_an_announcement_replaces_the_one_before_and_a_reset_forgets_it():
    engine, _ = _engine(demands="announced")
    engine.demands({AB: 1e6, CB: 1e6}, happened_at=0.0)

    engine.demands({CB: 2e6}, happened_at=0.0)
    assert view_of(engine.state).active == {CB}

    engine.reset("maxmin", None, {}, lambda record: None)
    assert view_of(engine.state).active == frozenset()


def test_where_demands_are_announced_counters_say_nothing():
    engine, _ = _engine(demands="announced")

    for megabytes in (0, 1, 2):
        engine.period_elapsed({AB: megabytes * 10**6})

    assert view_of(engine.state).active == frozenset()


def test_where_demands_are_measured_an_announcement_is_refused():
    engine, _ = _engine()

    with pytest.raises(InputError, match="measures demands"):
        engine.demands({AB: 1e6}, happened_at=0.0)


@pytest.mark.parametrize(("size_bytes", "says"), [({("a", "x"): 1.0}, "no site 'x'"), ({AB: -1.0}, "not negative")])
def test_an_announcement_that_makes_no_sense_changes_nothing(size_bytes: dict, says: str):
    engine, _ = _engine(demands="announced")
    engine.demands({CB: 1e6}, happened_at=0.0)

    with pytest.raises(InputError, match=says):
        engine.demands(size_bytes, happened_at=0.0)

    assert view_of(engine.state).active == {CB}


class Failing:
    def decide(self, view, now):
        raise LookupError("no such weight")


def test_a_policy_that_raises_is_an_event_once_and_the_news_is_kept_for_the_next(monkeypatch: pytest.MonkeyPatch):
    engine, published = _engine()
    engine.reset(f"{__name__}:Failing", None, {}, lambda record: None)

    for _ in range(2):
        assert engine.capacity({("a", "c"): 1e6}, happened_at=0.0) is None

    faults = [event for event in published if event["event"] == "policy"]
    assert [event["policy"] for event in faults] == [f"{__name__}:Failing"]
    assert "LookupError: no such weight" in faults[0]["what"]
    assert view_of(engine.state).capacities_bps["a", "c"] == 1e6


def test_a_controller_whose_policy_cannot_be_loaded_goes_on_with_the_one_it_has():
    engine, _ = _engine()

    with pytest.raises(InputError, match="cannot be imported"):
        engine.reset("nowhere_at_all:Mine", None, {}, lambda record: None)

    assert engine.policy_name == "maxmin"


def test_settings_of_demands_capacity_and_calm_pass_through_the_file_and_are_checked():
    settings = ControllerSettings(demands="announced", capacity="measured", dwell_s=2.0, moves=3, move_every_s=4.0)
    wan = wan_of(NARROW)
    config = ControllerConfig(wan, wiring_of(wan), Path("/none"), settings)

    assert config_from_json(config_to_json(config)).settings == settings
    for wrong in ({"demands": "guessed"}, {"capacity": "oracle"}, {"dwell_s": -1.0}, {"moves": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            ControllerSettings(**wrong)


def test_what_was_announced_outlives_the_process(tmp_path: Path):
    engine, _ = _engine(demands="announced")
    engine.demands({AB: 1e6, CB: 2e6}, happened_at=0.0)
    memory = Memory(tmp_path / "told")
    memory.keep(engine.told)

    config = ControllerConfig(wan_of(NARROW), wiring_of(wan_of(NARROW)), Path("/none"), engine.settings)
    successor = Engine(config, Switchboard(config.wiring), lambda event: None)
    successor.recall(memory.recall())

    assert view_of(successor.state).demands_bytes == {AB: 1e6, CB: 2e6}


def test_good_news_moves_a_pair_when_its_dwell_is_over_whatever_the_period_is():
    wan, published, now = wan_of({"ab": 50e6, "ac": 40e6, "bc": 40e6}), [], [100.0]
    config = ControllerConfig(wan, wiring_of(wan), Path("/none"), ControllerSettings("widest", 3600.0, dwell_s=2.0))
    switches = Switchboard(config.wiring)
    engine = Engine(config, switches, published.append, lambda: now[0])
    for site in "abc":
        engine.connected(site, frozenset())
    switches.settle(engine)

    better = {edge: 90e6 for edge in wan.edges if "c" in edge}
    assert engine.capacity(better, happened_at=100.0) is None
    ((after_s, wake),) = switches.wakes
    now[0] += after_s
    wake()

    assert after_s == 2.0
    assert engine.state.wanted["a", "b"].route == ("a", "c", "b")
    switches.settle(engine)
    assert [event["cause"] for event in published if event["event"] == "reconfiguration"] == ["capacity"]
