"""Figures of the user-mode kernel follow from what a run's gate has measured."""

import pytest

from benchmarks.usermode import figures


def gate(delay_s, ratio):
    edges = [
        {"edge": list(edge), "delay_s": delay_s, "properties": {"delay_s": 0.025}} for edge in (("a", "b"), ("b", "a"))
    ]
    return {"edges": edges, "goodputs": [{"set_bps": 50e6, "ratio": ratio}] * 2}


def test_round_trips_are_held_against_both_delays_and_rates_with_their_headers():
    # 2 × 25.2 ÷ 50 ms; 0.98 of payload is 0.98 × 9014 ÷ 8948 of the rate
    trips, rates = figures(gate(0.0252, 0.98))
    assert trips.shown == pytest.approx(1.008)
    assert rates.shown == pytest.approx(0.98723, abs=1e-5)
    assert trips.reached and rates.reached


def test_what_is_out_of_reach_is_not_reached():
    trips, rates = figures(gate(0.0256, 0.95))
    assert not trips.reached
    assert not rates.reached
