"""What a record of numbered probes says, on records made by hand."""

from __future__ import annotations

import numpy
import pytest

from testbed.probes import ENTRY, Probes, overtaken_on_their_path


def _probes(arrived: dict[int, float], sent: int = 10) -> Probes:
    """Probe n is sent at second n; `arrived` has when each came, in order."""
    return Probes(numpy.array([(n, float(n)) for n in range(sent)], ENTRY), numpy.array(list(arrived.items()), ENTRY))


def test_the_longest_gap_is_between_two_arrivals():
    probes = _probes({0: 0.5, 1: 1.5, 5: 5.5, 6: 6.5})

    assert probes.longest_gap_s(0.0, 10.0) == 4.0


def test_a_gap_that_lasts_into_the_span_or_out_of_it_counts_whole():
    probes = _probes({0: 0.5, 1: 1.5, 5: 5.5, 6: 6.5, 7: 7.5, 8: 8.5})

    assert probes.longest_gap_s(3.0, 4.0) == 4.0
    assert probes.longest_gap_s(5.6, 7.0) == 1.0


def test_a_silence_that_never_ends_counts_up_to_the_end_of_the_span():
    assert _probes({0: 0.5, 1: 1.5}).longest_gap_s(1.0, 9.5) == 8.0


def test_lost_are_those_that_were_sent_in_the_span_and_never_came():
    probes = _probes({0: 0.5, 1: 1.5, 5: 5.5, 6: 6.5})

    assert probes.lost(0.0, 7.0) == 3
    assert probes.lost(3.0, 7.0) == 2
    assert probes.lost(5.0, 7.0) == 0


def test_the_order_is_that_of_arrival():
    assert _probes({3: 3.5, 2: 3.6, 4: 4.5, 5: 5.5}).order(3.0, 5.0) == [3, 2, 4]


@pytest.mark.parametrize(
    ("order", "overtaken"),
    [
        ([1, 2, 3, 4], 0),
        ([], 0),
        ([1, 2, 5, 3, 6, 4, 7], 0),  # Split at 5: 1 2 3 4 by the old path, 5 6 7 by the new.
        ([1, 3, 2, 4], 0),  # Split at 3.
        ([1, 3, 2, 5, 4], 1),  # 3 before 2 needs a split at 3, 5 before 4 one at 5: not both.
        ([4, 3, 2, 1], 2),  # With any split, of 1 2 3 4 backwards two remain.
    ],
)
def test_what_one_move_accounts_for_is_not_held_against_it(order: list[int], overtaken: int):
    assert overtaken_on_their_path(order) == overtaken
