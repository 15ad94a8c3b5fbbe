from __future__ import annotations

import math
import random
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from testbed.dynamics.tracefile import read_rows
from testbed.dynamics.traces import Change, TraceSpec, edges_matching, generate, reflect, trace_faults
from topologies import EdgeProperties, InputError, Link, Site, Wan
from topologies.builtins import builtin

SPEC: TypeAdapter[Any] = TypeAdapter(TraceSpec)


def spec(**fields: object) -> Any:
    return SPEC.validate_python(fields)


def wan(*pairs: str) -> Wan:
    """Links named like `a-b`, 10 Mbit/s forward, 20 Mbit/s backward."""
    there, back = EdgeProperties(10e6), EdgeProperties(20e6)
    ends = [pair.split("-") for pair in pairs]
    names = dict.fromkeys(name for pair in ends for name in pair)
    return Wan("w", tuple(Site(name) for name in names), tuple(Link(a, b, there, back) for a, b in ends))


def series(changes: tuple[Change, ...], edge: tuple[str, str]) -> list[tuple[float, float]]:
    return [(change.at_s, change.rate_bps) for change in changes if change.edge == edge]


CHAIN = wan("a-b", "b-c")
AB, BA, BC, CB = ("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")


def test_a_constant_trace_says_once_what_the_wan_has():
    assert generate(spec(kind="constant"), CHAIN, 1, 60) == (
        Change(0, AB, 10e6),
        Change(0, BA, 20e6),
        Change(0, BC, 10e6),
        Change(0, CB, 20e6),
    )


def test_a_constant_trace_with_a_rate_sets_it_on_the_links_it_names():
    assert generate(spec(kind="constant", rate="5mbit", links=["c-b"]), CHAIN, 1, 60) == (
        Change(0, BC, 5e6),
        Change(0, CB, 5e6),
    )


def test_steps_begin_with_the_rate_of_the_wan_and_follow_the_list_up_to_the_end_of_the_run():
    steps = [
        {"at": "20s", "link": "a-b", "rate": "3mbit"},
        {"at": 10, "link": "a->b", "rate": "1mbit"},
        {"at": "1min", "link": "a-b", "rate": "9mbit"},
    ]

    assert generate(spec(kind="steps", steps=steps), CHAIN, 1, 60) == (
        Change(0, AB, 10e6),
        Change(0, BA, 20e6),
        Change(10, AB, 1e6),
        Change(20, AB, 3e6),
        Change(20, BA, 3e6),
    )


def test_a_step_at_time_0_replaces_the_rate_of_the_wan():
    steps = [{"at": 0, "link": "a->b", "rate": "1mbit"}]

    assert generate(spec(kind="steps", steps=steps), CHAIN, 1, 60) == (Change(0, AB, 1e6),)


def test_redraw_draws_every_link_anew_in_each_interval_as_netstorm_does():
    netstorm = spec(kind="redraw", every="180s", low="20mbit", high="155mbit")

    changes = generate(netstorm, builtin("b4"), 7, 600)

    assert sorted({change.at_s for change in changes}) == [0, 180, 360, 540]
    assert len(changes) == 4 * 38
    assert all(20e6 <= change.rate_bps <= 155e6 for change in changes)
    assert len({change.rate_bps for change in changes}) == 4 * 19


def test_redraw_is_uniform_between_its_bounds():
    changes = generate(spec(kind="redraw", every="1s", low="20mbit", high="120mbit", links="a->b"), CHAIN, 1, 4000)

    rates = [change.rate_bps for change in changes]
    assert statistics.fmean(rates) == pytest.approx(70e6, abs=2e6)  # standard error 0.46e6
    assert statistics.stdev(rates) == pytest.approx(100e6 / math.sqrt(12), rel=0.05)


@pytest.mark.parametrize("kind", ["redraw", "walk"])
def test_directions_differ_only_where_asked_for(kind: str):
    fields = {"kind": kind, "every": "1s", "low": "1mbit", "high": "9mbit"}

    together = generate(spec(**fields), CHAIN, 1, 20)
    apart = generate(spec(**fields, symmetric=False), CHAIN, 1, 20)

    assert series(together, AB) == series(together, BA)
    assert series(together, AB) != series(together, BC)
    assert series(apart, AB) != series(apart, BA)


def test_a_walk_returns_to_its_mean_and_spreads_as_asked():
    walk = spec(kind="walk", every="10s", low="1mbit", high="10gbit", mean="100mbit", half_life="10s", spread=0.5)

    logs = [math.log(rate_bps) for _, rate_bps in series(generate(walk, CHAIN, 3, 40_000), AB)]

    # Correlation ½ between neighbours: 4000 samples count as 4000·(1 − ½)/(1 + ½) = 1333, standard error 0.5/√1333.
    assert statistics.fmean(logs) == pytest.approx(math.log(100e6), abs=4 * 0.0137)
    assert statistics.stdev(logs) == pytest.approx(0.5, rel=0.1)
    assert statistics.correlation(logs[:-1], logs[1:]) == pytest.approx(0.5, abs=0.06)


def test_a_walk_far_from_its_mean_comes_back_by_half_in_one_half_life():
    walk = spec(kind="walk", every="10s", low="1mbit", high="10gbit", mean="100mbit", half_life="10s", spread=0.5)
    logs = [math.log(rate_bps / 100e6) for _, rate_bps in series(generate(walk, CHAIN, 5, 40_000), AB)]

    far = [(here, after) for here, after in pairwise(logs) if abs(here) > 0.75]

    assert len(far) > 200
    assert statistics.fmean(after / here for here, after in far) == pytest.approx(0.5, abs=0.12)


def test_a_walk_without_spread_stays_at_the_geometric_middle():
    changes = generate(spec(kind="walk", every="1s", low="1mbit", high="100mbit", spread=0), CHAIN, 1, 10)

    assert [rate_bps for _, rate_bps in series(changes, AB)] == pytest.approx([10e6] * 10)


RANDOM_SPECS = st.builds(
    lambda kind, every, low, width, symmetric: spec(
        kind=kind, every=every, low=low, high=low * (1 + width), symmetric=symmetric
    ),
    st.sampled_from(["redraw", "walk"]),
    st.floats(0.1, 20),
    st.floats(1e4, 1e9),
    st.floats(0, 50),
    st.booleans(),
)
SEEDS = st.integers(0, 2**63)


@settings(max_examples=60, deadline=None)
@given(RANDOM_SPECS, SEEDS, st.floats(0.5, 60))
def test_random_traces_keep_their_bounds_begin_at_0_and_end_before_the_run(spec, seed, duration_s):
    changes = generate(spec, CHAIN, seed, duration_s)

    assert [change.edge for change in changes if change.at_s == 0] == [AB, BA, BC, CB]
    assert all(spec.low <= change.rate_bps <= spec.high for change in changes)
    assert all(change.at_s < duration_s for change in changes)
    assert [change.at_s for change in changes] == sorted(change.at_s for change in changes)


@settings(max_examples=30, deadline=None)
@given(RANDOM_SPECS, SEEDS)
def test_a_seed_determines_a_trace_and_another_seed_another_one(spec, seed):
    random.seed(1)
    first = generate(spec, CHAIN, seed, 30)
    random.seed(2)

    assert generate(spec, CHAIN, seed, 30) == first
    if spec.high > 1.01 * spec.low:
        assert generate(spec, CHAIN, seed + 1, 30) != first


@settings(max_examples=30, deadline=None)
@given(RANDOM_SPECS, SEEDS)
def test_another_link_changes_no_other_links_trace(spec, seed):
    small = generate(spec, CHAIN, seed, 30)
    large = generate(spec, wan("c-d", "b-d", "b-c", "a-b"), seed, 30)

    for edge in (AB, BA, BC, CB):
        assert series(small, edge) == series(large, edge)


def test_a_longer_run_begins_as_a_shorter_one():
    walk = spec(kind="walk", every="1s", low="1mbit", high="9mbit")

    assert series(generate(walk, CHAIN, 1, 60), AB)[:10] == series(generate(walk, CHAIN, 1, 10), AB)


def test_traces_stay_the_same_from_release_to_release():
    # Recorded once: a change here changes the results of everybody's experiments.
    redraw = spec(kind="redraw", every="1s", low="20mbit", high="155mbit")
    walk = spec(kind="walk", every="1s", low="20mbit", high="155mbit")

    assert [round(rate) for _, rate in series(generate(redraw, CHAIN, 1, 3), AB)] == [36422036, 76082564, 70057024]
    assert [round(rate) for _, rate in series(generate(walk, CHAIN, 1, 3), AB)] == [80929482, 86593995, 76683411]


@pytest.mark.parametrize(
    ("value", "expected"), [(5, 5), (0, 0), (10, 10), (12, 8), (-3, 3), (21, 1), (-11, 9), (30, 10), (40, 0)]
)
def test_reflection_folds_a_value_into_its_bounds(value: float, expected: float):
    assert reflect(value, 0, 10) == expected


@given(st.floats(-1e6, 1e6), st.floats(-100, 100), st.floats(0, 100))
def test_reflection_never_leaves_its_bounds(value: float, low: float, width: float):
    assert low <= reflect(value, low, low + width) <= low + width


@pytest.mark.parametrize(
    ("pattern", "edges"),
    [
        ("a-b", [AB, BA]),
        ("b-a", [AB, BA]),
        ("b->a", [BA]),
        ("b->*", [BA, BC]),
        ("*", [AB, BA, BC, CB]),
        ("?-c", [BC, CB]),
        ("x-*", []),
    ],
)
def test_a_pattern_means_links_or_directions(pattern: str, edges: list[tuple[str, str]]):
    assert list(edges_matching(pattern, CHAIN)) == edges


def test_a_name_with_signs_of_patterns_means_itself():
    strange = Wan(
        "w", (Site("a [1]"), Site("b*")), (Link("a [1]", "b*", EdgeProperties(1e6), EdgeProperties(1e6), "the [one]"),)
    )

    assert len(edges_matching("the [one]", strange)) == len(edges_matching("b*-a [1]", strange)) == 2


@pytest.mark.parametrize(
    ("fields", "place", "value", "remedy"),
    [
        ({"kind": "constant", "links": "tokio-oregon"}, ("links",), "tokio-oregon", "did you mean 'tokyo-oregon'?"),
        (
            {"kind": "redraw", "every": 1, "low": 1e6, "high": 2e6, "links": ["*", "tokyo->oregn"]},
            ("links", 1),
            "tokyo->oregn",
            "did you mean 'tokyo->oregon'?",
        ),
        (
            {"kind": "steps", "steps": [{"at": 0, "link": "tokyo-paris", "rate": 1e6}]},
            ("steps", 0, "link"),
            "tokyo-paris",
            "did you mean",
        ),
    ],
)
def test_a_trace_on_an_unknown_link_is_refused_with_the_nearest_name(fields, place, value, remedy):
    faults = list(trace_faults(spec(**fields), builtin("mesh4"), ("trace",)))

    assert [(fault.place, fault.value) for fault in faults] == [(("trace", *place), value)]
    assert remedy in faults[0].remedy
    with pytest.raises(InputError, match="no link of mesh4"):
        generate(spec(**fields), builtin("mesh4"), 1, 60)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "redraw", "every": "1s", "low": "9mbit", "high": "1mbit"}, "low is above high"),
        ({"kind": "redraw", "every": "0s", "low": "1mbit", "high": "9mbit"}, "above zero"),
        ({"kind": "walk", "every": "1s", "low": "1mbit", "high": "9mbit", "mean": "10mbit"}, "mean is not between"),
        ({"kind": "walk", "every": "1s", "low": "1mbit", "high": "9mbit", "half_life": 0}, "above zero"),
        ({"kind": "walk", "every": "1s", "low": "1mbit", "high": "9mbit", "spread": -1}, "greater than or equal"),
        ({"kind": "redraw", "every": "1s", "low": "0mbit", "high": "9mbit"}, "a rate lies between"),
        ({"kind": "steps", "steps": []}, "at least 1"),
        ({"kind": "file", "path": "x.csv", "hold": True, "repeat": True}, "exclude each other"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, object], expected: str):
    with pytest.raises(ValueError, match=expected):
        spec(**fields)


def rows_of(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    return read_rows(file, CHAIN)


THREE_ROWS = "time,link,rate\n0,a-b,1mbit\n10s, a->b ,2mbit\n\n20,a-b,3e6\n"


def test_a_trace_file_is_played_as_it_is_written(tmp_path: Path):
    rows = rows_of(tmp_path, THREE_ROWS)

    assert generate(spec(kind="file", path="trace.csv"), CHAIN, 1, 20, rows) == (
        Change(0, AB, 1e6),
        Change(0, BA, 1e6),
        Change(10, AB, 2e6),
    )


def test_a_trace_file_that_ends_before_the_run_is_refused_with_both_times(tmp_path: Path):
    rows = rows_of(tmp_path, THREE_ROWS)

    with pytest.raises(InputError, match=r"trace\.csv: the trace ends at 20 s, the run at 60\.5 s") as caught:
        generate(spec(kind="file", path="trace.csv"), CHAIN, 1, 60.5, rows)

    assert "hold: true" in caught.value.remedy
    assert "repeat: true" in caught.value.remedy


def test_a_trace_file_that_holds_keeps_its_last_rates(tmp_path: Path):
    rows = rows_of(tmp_path, THREE_ROWS)

    changes = generate(spec(kind="file", path="trace.csv", hold=True), CHAIN, 1, 60, rows)

    assert series(changes, AB) == [(0, 1e6), (10, 2e6), (20, 3e6)]
    assert series(changes, BA) == [(0, 1e6), (20, 3e6)]


def test_a_trace_file_that_repeats_begins_again_at_the_time_of_its_last_row(tmp_path: Path):
    rows = rows_of(tmp_path, THREE_ROWS)

    changes = generate(spec(kind="file", path="trace.csv", repeat=True), CHAIN, 1, 45, rows)

    assert series(changes, AB) == [(0, 1e6), (10, 2e6), (20, 1e6), (30, 2e6), (40, 1e6)]


def test_a_trace_file_that_repeats_without_end_is_refused(tmp_path: Path):
    rows = rows_of(tmp_path, "time,link,rate\n0,a-b,1mbit\n0.000001,a-b,2mbit\n")
    with pytest.raises(InputError, match="less often"):
        generate(spec(kind="file", path="t.csv", repeat=True), CHAIN, 1, 60, rows)


def test_a_link_whose_first_row_is_late_begins_with_the_rate_of_the_wan(tmp_path: Path):
    rows = rows_of(tmp_path, "time,link,rate\n5,b-c,1mbit\n")

    assert series(generate(spec(kind="file", path="t", hold=True), CHAIN, 1, 9, rows), CB) == [(0, 20e6), (5, 1e6)]


@pytest.mark.parametrize(
    ("text", "line", "value", "remedy"),
    [
        ("", 1, None, "time,link,rate"),
        ("at,link,rate\n0,a-b,1mbit\n", 1, "at,link,rate", "time,link,rate"),
        ("time,link,rate\n0,a-b,1mbit\n1,a-b\n", 3, "1,a-b", "12.5,tokyo-oregon,30mbit"),
        ("time,link,rate\n0,a-b,1mbits\n", 2, "1mbits", "100mbit"),
        ("time,link,rate\n0,a-b,-1mbit\n", 2, "-1mbit", "100mbit"),
        ("time,link,rate\n0,a-b,0\n", 2, "0", "100mbit"),
        ("time,link,rate\n0,a-b,nan\n", 2, "nan", "100mbit"),
        ("time,link,rate\n-1,a-b,1mbit\n", 2, "-1", "25ms"),
        ("time,link,rate\nsoon,a-b,1mbit\n", 2, "soon", "25ms"),
        ("time,link,rate\n0,a-c,1mbit\n", 2, "a-c", "did you mean"),
        ("time,link,rate\n3,a-b,1mbit\n3.0,b->a,2mbit\n", 3, 3.0, "delete one"),
    ],
)
def test_a_fault_in_a_trace_file_is_reported_with_line_value_and_remedy(tmp_path, text, line, value, remedy):
    with pytest.raises(InputError) as caught:
        rows_of(tmp_path, text)

    assert caught.value.file == f"{tmp_path / 'trace.csv'}:{line}"
    assert caught.value.value == value
    assert remedy in caught.value.remedy


def test_a_trace_file_without_rows_or_that_does_not_exist_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="no rows"):
        rows_of(tmp_path, "time,link,rate\n")
    with pytest.raises(InputError, match="no such file"):
        read_rows(tmp_path / "other.csv", CHAIN)


def test_all_faults_of_a_trace_file_are_listed(tmp_path: Path):
    with pytest.raises(InputError, match="3 faults") as caught:
        rows_of(tmp_path, "time,link,rate\n0,a-x,1mbits\n1,a-b,1\n")

    assert "trace.csv:2" in str(caught.value)
    assert "trace.csv:3" in str(caught.value)
