"""What theory says of rings, sawtooths and jitter, against hand calculations."""

import math

import pytest

from benchmarks.textbook import (
    chance_of_both_ways,
    measured_sawtooth,
    ring_limit_s,
    ring_over_delays_s,
    round_trip_of_uniform_jitter,
    sawtooth,
)


def test_the_bytes_of_a_ring_of_four():
    # 3 · 8 MiB · 8 bit ÷ 100 Mbit/s = 201 326 592 ÷ 10⁸ s
    assert ring_limit_s(4, 8 * 2**20, 100e6) == pytest.approx(2.01326592)


def test_delays_shorter_than_a_shard_hide_behind_the_bytes_but_for_the_first_and_the_last():
    # three shards of 50 ms each after 10 ms for the receiver's word, and 10 ms until the last byte is there
    assert ring_over_delays_s([0.010] * 4, shard_s=0.050, chunk_s=0.001) == pytest.approx(0.010 + 3 * 0.050 + 0.010)


def test_delays_longer_than_a_shard_add_up_around_the_ring():
    # word 100, then twice 100 + 1 until the next shard begins, 5 for the last one, 100 until it is there
    assert ring_over_delays_s([0.100] * 4, shard_s=0.005, chunk_s=0.001) == pytest.approx(0.100 + 2 * 0.101 + 0.105)


def test_the_sawtooth_of_a_link_of_a_thousand_segments_a_second():
    expected = sawtooth(rate_bps=8e6, frame_bytes=1000, in_flight=39, queue=60)

    assert expected.highest == 100
    assert expected.average == pytest.approx(77.78, abs=0.01)
    assert expected.period_s == pytest.approx(3.75)


def test_a_sawtooth_that_is_drawn_is_measured_again():
    # given a window that grows by one each round trip of w ÷ 1000 s, from 50 to 100, sampled every 0.1 s
    samples, now, window = [], 0.0, 50.0
    while len(samples) < 400:
        end = now + window / 1000
        while len(samples) * 0.1 < end:
            samples.append(window)
        now, window = end, 50.0 if window >= 100 else window + 1

    found = measured_sawtooth([index * 0.1 for index in range(400)], samples)

    assert found.highest == pytest.approx(100, rel=0.01)
    assert found.average == pytest.approx(700 / 9, rel=0.01)
    assert found.period_s == pytest.approx(3.825, rel=0.01)  # Σ w ÷ 1000 for w = 50 … 100


def test_a_window_that_never_falls_has_no_teeth():
    assert math.isnan(measured_sawtooth([0.1 * i for i in range(100)], list(range(100))).period_s)


def test_the_round_trip_of_two_even_jitters():
    # each way even over 8 … 12 ms: variance 4²/12 ms², two of them 2.667 ms²
    mean_s, deviation_s = round_trip_of_uniform_jitter(0.010, 0.002)

    assert mean_s == 0.020
    assert deviation_s == pytest.approx(math.sqrt(8 / 3) / 1e3)


def test_a_round_trip_is_lost_on_either_way():
    assert chance_of_both_ways(0.1) == pytest.approx(0.19)
