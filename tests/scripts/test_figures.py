"""Figures of scripts/bench: what counts as reached, and how it is shown."""

import pytest

from benchmarks.figure import Reach, failed, figure, figures_of, percentile, table, worst_of
from topologies import RingroadError


@pytest.mark.parametrize(
    ("reach", "value", "holds"),
    [
        (Reach(at_most=1.03), 1.03, True),
        (Reach(at_most=1.03), 1.031, False),
        (Reach(at_least=0.97, at_most=1.0), 0.97, True),
        (Reach(at_least=0.97, at_most=1.0), 0.969, False),
        (Reach(at_least=0.97, at_most=1.0), 1.001, False),
        (Reach(at_most=1.0, decimals=2), 1.0049, True),
        (Reach(at_most=1.0, decimals=2), 1.0051, False),
        (Reach(at_most=0), 0, True),
        (Reach(at_most=1.0), float("nan"), False),
    ],
)
def test_a_value_on_the_edge_of_its_reach_holds_and_one_beyond_does_not(reach, value, holds):
    assert reach.holds(value) is holds


def test_a_figure_of_many_values_is_reached_only_if_every_one_is():
    reach = Reach(at_least=0.97, at_most=1.0)

    assert worst_of("goodput", [0.98, 0.99], "", "set rate", reach).reached
    assert not worst_of("goodput", [0.98, 0.96, 0.99], "", "set rate", reach).reached
    assert not worst_of("goodput", [], "", "set rate", reach).reached


def test_a_figure_of_many_values_shows_the_one_that_is_worst_off():
    reach = Reach(at_least=0.97, at_most=1.0)

    # 0.975 is 0.005 inside its end, 0.999 only 0.001 inside the other.
    assert worst_of("goodput", [0.975, 0.985, 0.999], "", "set rate", reach).shown == 0.999
    # 0.90 is 0.07 outside, 1.02 only 0.02.
    assert worst_of("goodput", [0.90, 1.02], "", "set rate", reach).shown == 0.90


def test_a_figure_has_exactly_the_keys_that_readers_of_the_json_rely_on():
    shown = figure("ring", 1.0123456, "", "(n-1)·S ÷ rate", Reach(at_most=1.03)).as_json()

    assert shown == {
        "name": "ring",
        "value": 1.0123,
        "unit": "",
        "against": "(n-1)·S ÷ rate",
        "reach": "≤ 1.03",
        "reached": True,
    }


def test_a_reach_in_hundredths_is_shown_in_hundredths():
    assert str(Reach(at_most=1.0, decimals=2)) == "≤ 1.00"


def test_a_figure_that_could_not_be_measured_has_no_value_and_is_not_reached():
    shown = failed("ring", "s", "limit", Reach(at_most=1)).as_json()

    assert shown["value"] is None
    assert shown["reached"] is False


def test_a_percentile_is_a_value_that_was_measured():
    hundred = list(range(100, 0, -1))

    assert percentile(hundred, 0.99) == 99
    assert percentile(hundred, 0.5) == 50
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([1, 2, 3], 1.0) == 3


def test_the_table_names_each_figure_and_marks_those_not_reached():
    text = table([figure("quick", 1, "s", "call", Reach(at_most=2)), failed("slow", "s", "call", Reach(at_most=2))])

    quick, slow = text.splitlines()[1:]
    assert quick.split() == ["quick", "1", "s", "≤", "2", "yes", "call"]
    assert slow.split() == ["slow", "failed", "≤", "2", "NO", "call"]


def test_a_part_that_fails_is_a_figure_not_reached_and_the_others_go_on():
    def broken():
        """Cannot be measured here."""
        yield figure("first half", 1.0, "s", "nothing", Reach())
        raise RingroadError("no network")

    def whole():
        """Can be."""
        yield figure("whole", 2.0, "s", "nothing", Reach())

    said = []
    found = list(figures_of((broken, whole), said.append))

    assert [(each.name, each.reached) for each in found] == [
        ("first half", True),
        ("Cannot be measured here.", False),
        ("whole", True),
    ]
    assert said == ["Cannot be measured here.", "failed: no network", "Can be."]
