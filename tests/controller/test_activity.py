from __future__ import annotations

from controller.activity import Activity

AB, BA, BC = ("a", "b"), ("b", "a"), ("b", "c")


def _after(*polls: tuple[float, dict]) -> Activity:
    activity = Activity()
    for now, counters in polls:
        activity = activity.after(counters, now)
    return activity


def test_nobody_is_active_before_the_second_poll():
    assert _after((0.0, {AB: 10**9})).pairs == frozenset()


def test_a_pair_whose_counter_grew_is_active():
    assert _after((0.0, {AB: 0, BC: 0}), (0.5, {AB: 6_000_000, BC: 0})).pairs == {AB}


def test_acknowledgements_are_not_load():
    # 6 MB at MTU 9000 bring back about 335 acknowledgements of 66 bytes: 22 kB, 0.4 % of what they acknowledge.
    assert _after((0.0, {AB: 0, BA: 0}), (0.5, {AB: 6_000_000, BA: 22_000})).pairs == {AB}


def test_a_stray_packet_is_not_load():
    assert _after((0.0, {AB: 0}), (0.5, {AB: 9_000})).pairs == frozenset()


def test_a_pair_that_stops_while_others_go_on_is_forgotten():
    polls = [(0.5 * i, {AB: 10**6, BC: 10**6 * i}) for i in range(5)]

    assert _after((-0.5, {AB: 0, BC: 0}), *polls).pairs == {BC}


def test_a_counter_that_is_shown_late_by_one_poll_does_not_make_its_pair_idle():
    polls = [(0.0, {AB: 0, BC: 0}), (0.5, {AB: 10**6, BC: 10**6}), (1.0, {AB: 10**6, BC: 2 * 10**6})]

    assert _after(*polls).pairs == {AB, BC}


def test_a_pause_of_everybody_changes_nothing():
    before = [(0.0, {AB: 0}), (0.5, {AB: 10**6})]

    assert _after(*before, (60.0, {AB: 10**6}), (120.0, {AB: 10**6})).pairs == {AB}


def test_a_counter_that_began_anew_counts_from_nought():
    assert _after((0.0, {AB: 10**9}), (0.5, {AB: 10**6})).pairs == {AB}
