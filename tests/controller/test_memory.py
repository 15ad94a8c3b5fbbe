from __future__ import annotations

from pathlib import Path

from openflow_table import Switchboard
from wans import wan_of, wiring_of

from controller.engine import Engine
from controller.memory import Memory, Told
from controller.settings import ControllerConfig, ControllerSettings

DIAMOND = {"ab": 100e6, "ac": 100e6, "bc": 100e6, "ad": 100e6, "bd": 100e6}


def _engine(switches: Switchboard | None = None) -> tuple[Engine, Switchboard]:
    wan = wan_of(DIAMOND)
    config = ControllerConfig(wan, wiring_of(wan), Path("/none"), ControllerSettings("widest"))
    switches = switches or Switchboard(config.wiring)
    return Engine(config, switches, lambda event: None), switches


def _connect_all(engine: Engine, switches: Switchboard) -> None:
    for site in "abcd":
        engine.connected(site, frozenset(), switches.held(site))
    switches.settle(engine)


def test_nothing_was_told_before_anything_was_kept(tmp_path: Path):
    assert Memory(tmp_path / "c.told").recall() is None


def test_what_is_kept_comes_back_as_it_was_and_is_its_owners_alone(tmp_path: Path):
    memory = Memory(tmp_path / "c.told")
    engine, _ = _engine()
    engine.true_capacities({("a", "b"): 42e6})
    told = engine.told

    memory.keep(told)

    assert memory.recall() == told
    assert [file.name for file in tmp_path.iterdir()] == ["c.told"]
    assert (tmp_path / "c.told").stat().st_mode & 0o777 == 0o600


def test_what_is_forgotten_is_gone(tmp_path: Path):
    memory = Memory(tmp_path / "c.told")
    memory.keep(_engine()[0].told)

    memory.forget()
    memory.forget()

    assert memory.recall() is None


def test_a_controller_that_was_restarted_goes_on_with_policy_capacities_and_pins():
    first, switches = _engine()
    _connect_all(first, switches)
    first.reset("shortest", 2.0, {("a", "b"): 5e6}, lambda record: None)
    first.true_capacities({("a", "b"): 4e6})
    first.pin(("c", "b"), ("c", "a", "d", "b"), lambda record: None)
    switches.settle(first)
    told: Told = first.told

    second, _ = _engine(switches)
    second.recall(told)
    _connect_all(second, switches)

    assert second.told == told
    assert (second.policy_name, second.period_s) == ("shortest", 2.0)
    assert second.true_capacities_bps == {("a", "b"): 4e6}
    assert second.state.ready
    assert switches.trace(("c", "b")) == ("c", "a", "d", "b")
    assert not second.state.detouring
