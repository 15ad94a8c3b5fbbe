"""What a collective shows of its links, and how long that counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.estimates import Estimates
from workers.passive import Arrival, Passive, Seen, newest, seen
from workers.schedules.plan import Chunk

ELEMENT_BYTES = 4
CHUNK = 2500
"""Elements: 10 kB, 80 kbit."""


def arrivals(source: int, shard: int, times_s: list[float]) -> list[Arrival]:
    return [Arrival(source, Chunk(shard, i * CHUNK, (i + 1) * CHUNK), at_s) for i, at_s in enumerate(times_s)]


def test_the_own_shard_of_a_neighbour_shows_what_its_link_gives():
    # a chunk of 80 kbit every 8 ms: 10 Mbit/s
    (sight,) = seen(arrivals(2, 2, [5.0 + 0.008 * i for i in range(10)]), ELEMENT_BYTES)
    assert (sight.source, sight.is_floor, sight.at_s) == (2, False, pytest.approx(5.072))
    assert sight.rate_bps == pytest.approx(10e6)


def test_a_shard_that_was_passed_on_shows_only_a_floor():
    # rank 2 passes on rank 5's shard as it gets it, a chunk every 40 ms: at least 2 Mbit/s, whatever its own link is
    (sight,) = seen(arrivals(2, 5, [0.04 * i for i in range(10)]), ELEMENT_BYTES)
    assert sight.is_floor
    assert sight.rate_bps == pytest.approx(2e6)
    # beside its own shard the floor says nothing
    both = arrivals(2, 2, [0.008 * i for i in range(10)]) + arrivals(2, 5, [1 + 0.04 * i for i in range(10)])
    assert [s.rate_bps for s in seen(both, ELEMENT_BYTES)] == pytest.approx([10e6])


def test_a_burst_at_the_start_and_a_stall_hardly_count():
    times_s = [0.0, 0.0001, *(0.008 * i for i in range(1, 11))]
    times_s = [*times_s[:6], *(t + 0.5 for t in times_s[6:])]
    (sight,) = seen(arrivals(1, 1, times_s), ELEMENT_BYTES)
    assert sight.rate_bps < 12e6


def test_too_few_chunks_say_nothing():
    assert seen(arrivals(1, 1, [0.0, 0.1, 0.2]), ELEMENT_BYTES) == []


def test_a_last_chunk_that_is_shorter_is_left_out():
    full = arrivals(1, 1, [0.008 * i for i in range(8)])
    short = Arrival(1, Chunk(1, 8 * CHUNK, 8 * CHUNK + 5), 0.0561)
    assert seen([*full, short], ELEMENT_BYTES)[0].rate_bps == pytest.approx(10e6)


def test_each_source_is_seen_on_its_own_however_their_chunks_interleave():
    mixed = sorted(
        arrivals(0, 0, [0.008 * i for i in range(9)]) + arrivals(3, 3, [0.004 * i for i in range(9)]),
        key=lambda arrival: arrival.at_s,
    )
    assert {s.source: s.rate_bps for s in seen(mixed, ELEMENT_BYTES)} == pytest.approx({0: 10e6, 3: 20e6})


def test_an_estimate_loses_half_its_weight_every_half_life():
    # two pairs, 40 and 80 Mbit/s, measured at second 0: the prior is 60
    known = Estimates(10.0).measured((0, 1), 40e6, 0.0).measured((1, 2), 80e6, 0.0)
    assert known.rate_bps((0, 1), 0.0) == 40e6
    assert known.rate_bps((0, 1), 10.0) == pytest.approx(50e6)
    assert known.rate_bps((0, 1), 20.0) == pytest.approx(55e6)
    # a pair that nobody measured is thought to be like the others
    assert known.rate_bps((2, 0), 5.0) == pytest.approx(60e6)


def test_newer_measurements_weigh_more_in_what_is_thought_of_the_rest():
    # 40 Mbit/s a half-life ago, 80 now: (½ · 40 + 1 · 80) / 1.5
    known = Estimates(10.0).measured((0, 1), 40e6, 0.0).measured((1, 2), 80e6, 10.0)
    assert known.prior_bps(10.0) == pytest.approx(100e6 / 1.5)


def test_ages_are_told_and_never_measured_is_infinite():
    known = Estimates(10.0).measured((0, 1), 1e6, 3.0)
    assert known.ages_s(3, 7.5)[0] == (0.0, 4.5, math.inf)
    assert known.matrix(2, 3.0) == ((0.0, 1e6), (1e6, 0.0))
    assert Estimates(10.0).matrix(2, 3.0) == ((0.0, 0.0), (0.0, 0.0))


def test_a_floor_only_raises():
    known = Estimates(10.0).measured((0, 1), 40e6, 0.0)
    assert known.at_least((0, 1), 30e6, 0.0) is known
    assert known.at_least((0, 1), 50e6, 1.0).rate_bps((0, 1), 1.0) == 50e6


def test_an_older_measurement_that_comes_late_changes_nothing():
    known = Estimates(10.0).measured((0, 1), 40e6, 5.0)
    assert known.measured((0, 1), 90e6, 4.0) is known


@given(
    rates=st.lists(st.floats(1e6, 1e9), min_size=1, max_size=6),
    ages=st.lists(st.floats(0, 1e4), min_size=6, max_size=6),
    later=st.floats(0, 1e5),
)
def test_no_estimate_leaves_the_range_of_what_was_measured(rates: list[float], ages: list[float], later: float):
    known = Estimates(7.0)
    for index, (rate, age) in enumerate(zip(rates, ages, strict=False)):
        known = known.measured((0, index + 1), rate, 1e4 - age)
    for pair in [*known.newest, (3, 3)]:
        value = known.rate_bps(pair, 1e4 + later)
        assert value == 0.0 or min(rates) * (1 - 1e-9) <= value <= max(rates) * (1 + 1e-9)


def test_what_ranks_saw_becomes_a_matrix_at_the_leader():
    # rank 1 saw rank 0 at 40 Mbit/s; rank 0 saw rank 1 at 10 at least, and before that exactly at 20
    one, zero, leader = Passive(10.0), Passive(10.0), Passive(10.0)
    one.observe([Seen(0, 40e6, False, 5.0)])
    zero.observe([Seen(1, 20e6, False, 4.0)])
    leader.known([zero.row(2), one.row(2)], 5.0)
    zero.observe([Seen(1, 10e6, True, 5.0)])
    bandwidths, ages_s = leader.known([zero.row(2), one.row(2)], 5.0)
    assert bandwidths[0][1] == pytest.approx(40e6)
    assert bandwidths[1][0] == pytest.approx(20e6, rel=0.1)
    assert ages_s == ((0.0, 0.0), (1.0, 0.0))


def test_what_was_told_once_is_not_told_again():
    rank = Passive(10.0)
    rank.observe([Seen(1, 20e6, False, 4.0)])
    assert rank.row(2) == [0.0, 0.0, 0.0, 20e6, 0.0, 4.0]
    assert rank.row(2) == [0.0] * 6


def test_of_two_places_with_several_ranks_the_newest_sight_counts():
    # given places {0, 1} and {2, 3}: rank 2 saw rank 1 at 5 s, rank 3 saw rank 0 at 7 s, rank 1 saw rank 0 at 9 s
    nothing = [0.0, 0.0, 0.0]
    rows = [nothing * 4, [8e9, 0.0, 9.0] + nothing * 3, nothing + [1e6, 0.0, 5.0] + nothing * 2, nothing * 4]
    rows[3] = [2e6, 1.0, 7.0] + nothing * 3
    # then the second place saw the first as rank 3 did, and nobody counts what a place is to itself
    assert newest(rows, [[0, 1], [2, 3]]) == [nothing * 2, [2e6, 1.0, 7.0, *nothing]]
