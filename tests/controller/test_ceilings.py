from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openflow_table import Switchboard
from wans import wan_of, wiring_of

from controller.ceilings import MEMORY_S, Ceilings, Counters
from controller.engine import Engine
from controller.ofmsgs import PortCounts
from controller.portpolls import edge_counters
from controller.settings import ControllerConfig, ControllerSettings
from topologies import InputError

EDGE, OTHER, BESIDE = ("a", "b"), ("b", "a"), ("a", "c")
NOMINAL = {EDGE: 100e6, OTHER: 100e6, BESIDE: 100e6}
PERIOD_S = 0.2


class Link:
    """One edge, polled each 0.2 s; what the controller has been told of it."""

    def __init__(self) -> None:
        self.ceilings = Ceilings(NOMINAL)
        self.now, self.bytes, self.dropped, self.other_bytes = 100.0, 0, 0, 0
        self.told: list[float] = []
        self.poll(0.0)

    def poll(
        self,
        rate_bps: float,
        drops: int = 0,
        times: int = 1,
        period_s: float = PERIOD_S,
        waiting: int = 0,
        beside_bps: float = 0.0,
    ) -> None:
        """`waiting` bytes in the switch; another link of the same switch carries `beside_bps`."""
        for _ in range(times):
            self.now += period_s
            self.bytes += round(rate_bps * period_s / 8)
            self.dropped += drops
            self.other_bytes += round(beside_bps * period_s / 8)
            polled = {
                EDGE: Counters(self.bytes, self.dropped, waiting),
                BESIDE: Counters(self.other_bytes, 0, waiting),
            }
            self.ceilings, news = self.ceilings.after(polled, self.now)
            self.told += news.values()


def test_a_link_that_is_full_shows_its_ceiling():
    link = Link()

    link.poll(40e6, drops=3, times=3)

    assert link.told == pytest.approx([40e6])


def test_a_queue_that_stands_in_the_switch_shows_the_ceiling_of_its_only_busy_link():
    link = Link()

    link.poll(40e6, waiting=81_000, times=3)

    assert link.told == pytest.approx([40e6])


def test_a_queue_that_comes_and_goes_shows_nothing():
    link = Link()

    for waiting in (81_000, 0) * 10:
        link.poll(40e6, waiting=waiting)

    assert link.told == []


def test_a_queue_may_stand_at_any_of_the_links_that_are_busy_and_shows_none():
    link = Link()

    link.poll(40e6, waiting=81_000, beside_bps=30e6, times=20)

    assert link.told == []


def test_acknowledgements_beside_do_not_count_as_busy():
    link = Link()

    link.poll(40e6, waiting=81_000, beside_bps=0.5e6, times=3)

    assert link.told == pytest.approx([40e6])


def test_bytes_that_a_switch_has_lost_look_like_a_queue_only_for_a_while():
    link = Link()

    link.poll(40e6, waiting=81_000, times=60)
    told = len(link.told)
    # By then the 81 kB are the emptiest of the last 50 polls: a lower rate is no ceiling any more.
    link.poll(20e6, waiting=81_000, times=10)

    assert len(link.told) == told == 1


def test_a_busy_link_that_drops_nothing_shows_none_however_steady_it_is():
    link = Link()

    link.poll(40e6, times=100)

    assert link.told == []


def test_the_begin_and_the_end_of_a_burst_are_no_ceilings():
    link = Link()

    # A period that is half over when the burst begins, one full, one that ends early.
    link.poll(20e6, drops=1)
    link.poll(40e6)
    link.poll(10e6, drops=1)
    link.poll(0.0)

    assert link.told == []


def test_a_queue_that_has_just_dropped_is_full_for_one_period_more():
    link = Link()

    link.poll(40e6)
    link.poll(40e6, drops=1)
    link.poll(44e6)

    # 40, then 44 is within a tenth: 40 + 0.3 · 4 = 41.2, not worth telling.
    assert link.told == pytest.approx([40e6])


def test_a_link_that_loses_capacity_while_it_is_full_is_told_again():
    link = Link()

    link.poll(40e6, drops=1, times=3)
    link.poll(20e6, drops=1, times=3)

    assert link.told == pytest.approx([40e6, 20e6])


def test_a_rate_above_what_was_learned_disproves_it():
    link = Link()
    link.poll(20e6, drops=1, times=3)

    link.poll(35e6)

    assert link.told == pytest.approx([20e6, 35e6])


def test_a_ceiling_is_forgotten_when_nobody_fills_the_link_any_more():
    link = Link()
    link.poll(20e6, drops=1, times=3)

    link.poll(1e6, times=round(MEMORY_S / PERIOD_S) - 1)
    assert link.told == pytest.approx([20e6])
    link.poll(1e6, times=3)

    assert link.told == pytest.approx([20e6, 100e6])


def test_a_switch_that_starts_anew_begins_with_new_counters():
    link = Link()
    link.poll(20e6, drops=1, times=3)

    link.bytes, link.dropped = 0, 0
    link.poll(20e6, drops=1, times=3)

    assert link.told == pytest.approx([20e6])


def test_two_polls_close_to_each_other_are_one():
    link = Link()
    link.poll(20e6, drops=1, times=3)

    link.poll(200e6, period_s=0.001)
    link.poll(20e6, drops=1)

    assert link.told == pytest.approx([20e6])


def test_edges_are_learned_apart():
    ceilings = Ceilings(NOMINAL)
    for number in range(4):
        counters = {EDGE: Counters(number * 10**6, number), OTHER: Counters(number * 10**6, 0)}
        ceilings, news = ceilings.after(counters, number * PERIOD_S)
        if number == 2:
            # 1 MB each 0.2 s: 40 Mbit/s.
            assert news == {EDGE: pytest.approx(40e6)}


@given(st.lists(st.tuples(st.floats(1e6, 100e6), st.booleans()), max_size=60))
def test_what_is_told_lies_between_the_least_that_was_carried_and_what_the_description_says(polls):
    link = Link()
    for rate_bps, dropping in polls:
        link.poll(rate_bps, drops=int(dropping))

    rates = [rate_bps for rate_bps, _ in polls]
    assert all(min(rates) * 0.99 <= told <= 100e6 * 1.01 for told in link.told)


def _engine(capacity: str) -> Engine:
    wan = wan_of({"ab": 100e6, "ac": 100e6, "bc": 100e6})
    settings = ControllerSettings("widest", capacity=capacity, dwell_s=0.0)
    config = ControllerConfig(wan, wiring_of(wan), Path("/none"), settings)
    switches, ticks = Switchboard(config.wiring), count(1000.0, 0.01)
    engine = Engine(config, switches, lambda event: None, lambda: next(ticks))
    for site in "abc":
        engine.connected(site, frozenset())
    switches.settle(engine)
    return engine


def test_where_capacities_are_measured_a_full_link_is_left_and_none_is_told():
    engine = _engine("measured")

    for number in range(1, 5):
        # A clock of 10 ms a look: with 20 looks between two polls, 0.2 s and more.
        for _ in range(20):
            engine.period_elapsed({})
        engine.ports_polled({("a", "b"): Counters(number * 1_000_000, number)})

    assert engine.state.capacities_bps["a", "b"] < 50e6
    assert engine.state.wanted["a", "b"].route == ("a", "c", "b")
    with pytest.raises(InputError, match="measures capacities"):
        engine.capacity({("a", "b"): 1e6}, happened_at=0.0)


def test_a_reset_forgets_what_was_measured():
    engine = _engine("measured")
    for number in range(1, 5):
        for _ in range(20):
            engine.period_elapsed({})
        engine.ports_polled({("a", "b"): Counters(number * 1_000_000, number)})

    engine.reset("widest", None, {("a", "b"): 100e6}, lambda record: None)
    for _ in range(20):
        engine.period_elapsed({})
    engine.ports_polled({("a", "b"): Counters(5_000_000, 5)})

    assert engine.state.capacities_bps["a", "b"] == 100e6


def test_what_comes_out_is_counted_at_the_end_of_an_edge_and_what_is_dropped_at_its_head():
    wiring = wiring_of(wan_of({"ab": 1e8, "bc": 1e8}))
    # 100 is the port of the host. In a wait 11 + 500 - 411 bytes, in b 22 - 11.
    ports = {
        ("a", 1): PortCounts(11, 411, 1),
        ("a", 100): PortCounts(500, 0, 7),
        ("b", 1): PortCounts(22, 11, 2),
    }

    assert edge_counters(wiring, ports) == {("a", "b"): Counters(22, 1, 100), ("b", "a"): Counters(11, 2, 11)}
