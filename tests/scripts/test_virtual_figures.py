"""Figures survive the way from one kernel to another."""

import json
from dataclasses import asdict

from benchmarks import virtual
from benchmarks.figure import Reach, failed, figure


def some_figures():
    """What a part may yield."""
    yield figure("gap", 3.5, "ms", "30 trials", Reach(at_most=8))
    yield failed("loss", "packets", "30 trials", Reach(at_least=0, at_most=0))


def test_figures_are_the_same_on_the_other_side():
    for each in some_figures():
        assert virtual.figure_of(json.loads(json.dumps(asdict(each)))) == each


def test_a_part_is_found_by_the_names_that_it_is_sent_with(tmp_path):
    file = tmp_path / "figures.json"
    virtual.main(str(file), some_figures.__module__, some_figures.__name__)
    assert [virtual.figure_of(plain) for plain in json.loads(file.read_text())] == list(some_figures())


def test_a_part_in_virtual_time_says_so():
    part = virtual.in_virtual_time(some_figures)
    assert part.__name__ == "some_figures"
    assert part.__doc__ == "In virtual time: What a part may yield."
