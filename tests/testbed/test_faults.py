from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from testbed.dynamics.faults import FaultSpec, crash_faults, fault_faults
from testbed.dynamics.timeline import Instant, capacities, timeline
from testbed.dynamics.traces import Change
from topologies import InputError
from topologies.builtins import builtin

FAULTS: TypeAdapter[Any] = TypeAdapter(list[FaultSpec])
WAN = builtin("mesh4")
THERE, BACK = ("tokyo", "oregon"), ("oregon", "tokyo")


def faults(*fields: dict[str, object]) -> Any:
    return FAULTS.validate_python(list(fields))


def down(at: float, duration: float | None = None, link: str = "tokyo-oregon") -> dict[str, object]:
    return {"kind": "down", "link": link, "at": at} | ({"for": duration} if duration else {})


def test_a_link_goes_down_and_comes_back():
    instants = timeline(WAN, (), faults(down(5, 10, "oregon-tokyo")))

    assert instants == (Instant(5, {}, {"tokyo-oregon": "down"}), Instant(15, {}, {"tokyo-oregon": "up"}))


def test_a_fault_without_an_end_stays():
    assert timeline(WAN, (), faults(down(5))) == (Instant(5, {}, {"tokyo-oregon": "down"}),)


def test_a_link_is_up_again_when_the_last_of_its_faults_is_over():
    hole = {"kind": "blackhole", "link": "tokyo-oregon", "at": 0, "for": 20}

    instants = timeline(WAN, (), faults(down(5, 10), hole, down(12, 5)))

    assert [(instant.at_s, instant.links["tokyo-oregon"]) for instant in instants] == [
        (0, "blackhole"),
        (5, "down"),
        (17, "blackhole"),
        (20, "up"),
    ]


def test_a_degraded_link_gets_back_the_rate_its_trace_has_reached():
    changes = (Change(0, THERE, 50e6), Change(6, THERE, 10e6), Change(8, THERE, 70e6))
    degraded = {"kind": "degrade", "link": "tokyo->oregon", "rate": "20mbit", "at": 2, "for": 7}

    instants = timeline(WAN, changes, faults(degraded))

    assert [(instant.at_s, dict(instant.rates_bps)) for instant in instants] == [
        (0, {THERE: 50e6}),
        (2, {THERE: 20e6}),
        (6, {THERE: 10e6}),
        (8, {THERE: 20e6}),
        (9, {THERE: 70e6}),
    ]


def test_a_degraded_link_without_trace_gets_back_its_own_rate_in_both_directions():
    degraded = {"kind": "degrade", "link": "tokyo-oregon", "rate": "20mbit", "at": 2, "for": 7}

    assert timeline(WAN, (), faults(degraded)) == (
        Instant(2, {THERE: 20e6, BACK: 20e6}, {}),
        Instant(9, {THERE: 100e6, BACK: 100e6}, {}),
    )


def test_a_crash_happens_once():
    assert timeline(WAN, (), faults({"kind": "crash", "dc": "tokyo", "at": 3})) == (Instant(3, {}, {}, ("tokyo",)),)


def crash(dc: str, at: float, duration: float | None = None) -> dict[str, object]:
    return {"kind": "crash", "dc": dc, "at": at} | ({"for": duration} if duration else {})


def test_a_dc_that_crashes_comes_back_when_the_last_of_its_crashes_is_over():
    overlapping = faults(crash("tokyo", 3, 4), crash("tokyo", 5, 6), crash("oregon", 7))

    assert timeline(WAN, (), overlapping) == (
        Instant(3, {}, {}, ("tokyo",)),
        Instant(7, {}, {}, ("oregon",)),
        Instant(11, {}, {}, (), ("tokyo",)),
    )


def test_a_dc_comes_back_only_in_an_elastic_run():
    (fault,) = crash_faults(faults(crash("oregon", 1), crash("tokyo", 3, 4)), WAN, elastic=False)

    assert (fault.place, fault.value) == (("faults", 1, "for"), 4)
    assert "elastic: true" in fault.remedy
    assert list(crash_faults(faults(crash("tokyo", 3, 4)), WAN, elastic=True)) == []


def test_an_elastic_run_always_has_two_dcs():
    # mesh4 has four: the third that is gone at the same time is one too many, and is not once one has come back
    first_two = (crash("tokyo", 1, 5), crash("oregon", 2))

    assert list(crash_faults(faults(*first_two, crash("virginia", 6)), WAN, elastic=True)) == []
    (fault,) = crash_faults(faults(*first_two, crash("virginia", 5)), WAN, elastic=True)
    assert (fault.place, fault.value) == (("faults", 2, "dc"), "virginia")
    assert "oregon, tokyo, virginia are gone" in fault.message


def test_a_change_to_the_same_rate_is_no_instant():
    assert timeline(WAN, (Change(0, THERE, 100e6), Change(5, THERE, 100e6))) == ()


def test_capacities_follow_the_timeline_and_are_zero_on_a_link_that_is_not_up():
    changes = (Change(0, THERE, 50e6), Change(6, BACK, 10e6))

    segments = capacities(WAN, timeline(WAN, changes, faults(down(2, 3))))

    assert [start_s for start_s, _ in segments] == [0, 2, 5, 6]
    assert [edges[THERE] for _, edges in segments] == [50e6, 0, 50e6, 50e6]
    assert [edges[BACK] for _, edges in segments] == [100e6, 0, 100e6, 10e6]
    assert all(len(edges) == 12 and edges["virginia", "tokyo"] == 100e6 for _, edges in segments)


@pytest.mark.parametrize(
    ("fields", "place", "value", "remedy"),
    [
        (down(1, link="tokio-oregon"), ("faults", 0, "link"), "tokio-oregon", "did you mean 'tokyo-oregon'?"),
        (down(1, link="tokyo-*"), ("faults", 0, "link"), "tokyo-*", "tokyo"),
        (
            {"kind": "degrade", "link": "tokyo->oregn", "rate": 1e6, "at": 1},
            ("faults", 0, "link"),
            "tokyo->oregn",
            "did you mean 'tokyo->oregon'?",
        ),
        ({"kind": "crash", "dc": "tokio", "at": 1}, ("faults", 0, "dc"), "tokio", "did you mean 'tokyo'?"),
        (down(60), ("faults", 0, "at"), 60, "earlier"),
    ],
)
def test_a_fault_that_does_not_fit_the_wan_or_the_run_is_refused(fields, place, value, remedy):
    found = list(fault_faults(faults(fields), WAN, duration_s=60))

    assert [(fault.place, fault.value) for fault in found] == [(place, value)]
    assert remedy in found[0].remedy


def test_a_timeline_with_a_fault_on_an_unknown_link_is_refused():
    with pytest.raises(InputError, match=r"faults\[1\]\.link: no link of mesh4"):
        timeline(WAN, (), faults(down(1), down(1, link="paris-oregon")))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "down", "link": "tokyo-oregon", "at": -1}, "not negative"),
        ({"kind": "down", "link": "tokyo-oregon", "at": 1, "for": 0}, "above zero"),
        ({"kind": "degrade", "link": "tokyo-oregon", "at": 1}, "rate"),
        ({"kind": "degrade", "link": "tokyo-oregon", "at": 1, "rate": "0mbit"}, "a rate lies between"),
        ({"kind": "crash", "dc": "tokyo", "at": 1, "for": 0}, "above zero"),
        ({"kind": "explode", "dc": "tokyo", "at": 1}, "explode"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, object], expected: str):
    with pytest.raises(ValueError, match=expected):
        faults(fields)


LINKS = st.sampled_from([link.name for link in WAN.links])
TIMES = st.integers(0, 20)
ANY_FAULT = st.builds(
    lambda kind, link, at, length, rate: (
        {"kind": kind, "link": link, "at": at, "for": length} | ({"rate": rate} if kind == "degrade" else {})
    ),
    st.sampled_from(["down", "blackhole", "degrade"]),
    LINKS,
    TIMES,
    st.integers(1, 10),
    st.sampled_from([1e6, 150e6]),
)
ANY_CHANGE = st.builds(Change, TIMES, st.sampled_from(list(WAN.edges)), st.sampled_from([30e6, 100e6, 200e6]))


@settings(max_examples=80, deadline=None)
@given(st.lists(ANY_FAULT, max_size=6), st.lists(ANY_CHANGE, max_size=10, unique_by=lambda c: (c.at_s, c.edge)))
def test_when_all_faults_are_over_the_wan_is_as_the_trace_alone_leaves_it(fields, changes):
    changes.sort(key=lambda change: change.at_s)

    with_faults = capacities(WAN, timeline(WAN, changes, faults(*fields)))
    alone = capacities(WAN, timeline(WAN, changes))

    assert with_faults[-1][1] == alone[-1][1]
    starts = [start_s for start_s, _ in with_faults]
    assert starts == sorted(set(starts))
