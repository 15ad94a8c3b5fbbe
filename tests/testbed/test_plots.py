"""The pictures of a report: they exist, are PNGs of a known size, and survive every kind of run."""

import shutil
import struct

import pytest
from matplotlib import pyplot
from synthetic import make_run

from testbed.report.make import make_report
from testbed.report.plots import ARM_COLOURS, LINK_COLOURS, _course

OKABE_ITO = {"#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"}
FAULTS = [
    {"at": "2s", "kind": "down", "link": "tokyo-oregon", "for": "3s"},
    {"at": "4s", "kind": "degrade", "link": "tokyo->singapore", "rate": "5mbit"},
    {"at": "6s", "kind": "crash", "dc": "tokyo"},
]


def size_of(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


def pictures_of(folder):
    make_report(folder.path)
    return {file.name: size_of(file.read_bytes()) for file in folder.path.glob("*.png")}


def test_colours_are_those_that_colour_blind_readers_can_tell_apart():
    assert set(ARM_COLOURS.values()) <= OKABE_ITO
    assert set(LINK_COLOURS) == OKABE_ITO


def test_a_run_has_two_pictures_wide_enough_for_a_page(tmp_path):
    sizes = pictures_of(make_run(tmp_path / "run", blocks=2))

    assert set(sizes) == {"completion_time.png", "distribution.png"}
    assert {width for width, _ in sizes.values()} == {1350}


@pytest.mark.parametrize(
    "keys",
    [
        {"blocks": 1, "arms": ["joint"]},
        {"blocks": 1, "keys": {"faults": FAULTS}},
        {"blocks": 1, "keys": {"wan": "b4", "trace": "constant"}},
        {"blocks": 1, "keys": {"trace": {"kind": "walk", "every": "1s", "low": "9mbit", "high": "60mbit"}}},
        {"blocks": 1, "keys": {"wan": "mesh4", "collectives": 12}},
    ],
    ids=["one arm", "faults", "many links", "walk", "short"],
)
def test_every_kind_of_run_can_be_drawn(tmp_path, keys):
    assert len(pictures_of(make_run(tmp_path / "run", **keys))) == 2


def test_a_link_that_is_down_has_no_capacity_whatever_its_rate():
    changes = [{"planned_s": at, "rates": [["a", "b", rate], ["b", "a", 1e6]]} for at, rate in ((2.0, 3e6), (9.0, 5e6))]
    states = [(1.0, False), (4.0, True)]

    assert _course(("a", "b"), 7e6, changes, states, 8.0) == ([0.0, 1.0, 2.0, 4.0, 8.0], [7.0, 0.0, 0.0, 3.0, 3.0])


def test_nothing_is_drawn_before_anything_is_measured(tmp_path):
    folder = make_run(tmp_path / "run", blocks=1)
    (folder.path / "arms.jsonl").unlink()
    shutil.rmtree(folder.path / "blocks")

    assert pictures_of(folder) == {}


def test_no_figure_is_left_open(tmp_path):
    pictures_of(make_run(tmp_path / "run", blocks=1))

    assert pyplot.get_fignums() == []
