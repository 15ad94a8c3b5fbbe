"""A link that flaps at 5 Hz for a minute, through the whole controller in simulated time: how often do pairs move?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from openflow_table import Switchboard
from wans import wan_of, wiring_of

from controller.engine import Engine
from controller.settings import ControllerConfig, ControllerSettings

FLAPS, UP_S = 300, 0.1
DIAMOND = {"ab": 100e6, "ac": 50e6, "bc": 50e6, "ad": 40e6, "bd": 40e6}


class Controller:
    """An engine over switches in memory that answer at once, with a clock that the test moves."""

    def __init__(self, **settings) -> None:
        wan = wan_of(DIAMOND)
        config = ControllerConfig(wan, wiring_of(wan), Path("/none"), ControllerSettings(**settings))
        self.now, self.moves = 0.0, Counter()
        self.switches = Switchboard(config.wiring)
        self.engine = Engine(config, self.switches, self._count, lambda: self.now)
        for site in "abcd":
            self.engine.connected(site, frozenset())
        self._settle()

    def flap(self, down, up) -> None:
        """Down and up again `FLAPS` times, counters read each half second."""
        for number in range(FLAPS):
            for half, change in enumerate((down, up)):
                self._advance_to((2 * number + half) * UP_S)
                change()
                if (2 * number + half) % 5 == 0:
                    self.engine.period_elapsed({("a", "b"): number * 10**6, ("b", "a"): number * 10**6})
                self._settle()

    def _advance_to(self, then: float) -> None:
        """Whatever wakes the engine until then, in order."""
        while due := [wake for wake in self.switches.wakes if wake[0] <= then - self.now]:
            first = min(due, key=lambda wake: wake[0])
            self.switches.wakes.remove(first)
            passed = first[0]
            self.switches.wakes = [(after_s - passed, callback) for after_s, callback in self.switches.wakes]
            self.now += passed
            first[1]()
            self._settle()
        self.switches.wakes = [(after_s - (then - self.now), callback) for after_s, callback in self.switches.wakes]
        self.now = then

    def _settle(self) -> None:
        self.switches.settle(self.engine)

    def _count(self, event: dict) -> None:
        for move in event.get("moves", ()):
            self.moves[tuple(move["pair"])] += 1


def _flapping(controller: Controller, how: str) -> Counter:
    ends, engine = (("a", "b"), ("b", "a")), controller.engine

    def _ports(up: bool) -> None:
        for edge in ends:
            engine.port_changed(edge, up)

    def _rate(rate_bps: float) -> None:
        engine.capacity(dict.fromkeys(ends, rate_bps), controller.now)

    if how == "down":
        controller.flap(lambda: _ports(False), lambda: _ports(True))
    else:
        controller.flap(lambda: _rate(1e6), lambda: _rate(100e6))
    return controller.moves


@pytest.mark.parametrize("policy", ["widest", "maxmin", "ecmp"])
def test_with_the_dwell_each_pair_moves_once_however_long_the_link_flaps(policy: str):
    moves = _flapping(Controller(policy=policy), "down")

    assert moves["a", "b"] == moves["b", "a"] == 1
    assert max(moves.values()) == 1


@pytest.mark.parametrize("policy", ["widest", "maxmin"])
def test_a_capacity_that_flaps_moves_each_pair_once_as_well(policy: str):
    moves = _flapping(Controller(policy=policy), "capacity")

    assert moves["a", "b"] == moves["b", "a"] == 1
    assert max(moves.values()) == 1


@pytest.mark.parametrize(("how", "per_budget", "more"), [("down", 2, 1), ("capacity", 1, 0)])
def test_without_a_dwell_the_budget_is_the_bound(how: str, per_budget: int, more: int):
    # B = 10, R = 1 s, t = 60 s: 70 moves on live paths, and as many off dead ones.
    moves = _flapping(Controller(policy="widest", dwell_s=0.0, moves=10, move_every_s=1.0), how)

    assert moves["a", "b"] > 10
    assert max(moves.values()) <= per_budget * (10 + 60 / 1.0) + more
