from __future__ import annotations

import math

import pytest

from topologies import EdgeProperties, InputError, Link, Site, Wan
from topologies.codec import wan_from_json, wan_to_json


def link(a: str, b: str, rate_bps: float = 1e6, name: str = "") -> Link:
    return Link(a, b, EdgeProperties(rate_bps), EdgeProperties(2 * rate_bps), name)


def line_of_three() -> Wan:
    return Wan("line", (Site("a"), Site("b", "transit"), Site("c")), (link("a", "b"), link("b", "c", name="the cable")))


def test_edges_have_the_properties_of_their_direction():
    wan = line_of_three()

    assert wan.edges[("a", "b")].rate_bps == 1e6
    assert wan.edges[("b", "a")].rate_bps == 2e6
    assert list(wan.edges) == [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]


def test_a_link_is_found_by_its_name_by_its_ends_and_by_itself():
    wan = line_of_three()

    found = wan.link("the cable")

    assert wan.link("b-c") is wan.link("c-b") is wan.link(("c", "b")) is wan.link(found) is found


def test_only_dcs_hold_workers():
    assert line_of_three().dcs == ("a", "c")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [("teh cable", "did you mean 'the cable'"), (("a", "c"), "known: a-b"), (("a", "x"), "'x'")],
)
def test_a_link_that_does_not_exist_is_refused_with_what_does(reference, expected):
    with pytest.raises(InputError, match=expected):
        line_of_three().link(reference)


def test_a_changed_edge_changes_nothing_else():
    wan = line_of_three()

    changed = wan.with_properties({("b", "a"): EdgeProperties(5e6)})

    assert changed.edges[("b", "a")].rate_bps == 5e6
    assert {edge: p for edge, p in changed.edges.items() if edge != ("b", "a")} == {
        edge: p for edge, p in wan.edges.items() if edge != ("b", "a")
    }


@pytest.mark.parametrize(
    "values", [{"rate_bps": 0}, {"rate_bps": -1e6}, {"rate_bps": math.nan}, {"rate_bps": math.inf}]
)
def test_a_rate_that_is_no_rate_is_refused(values: dict[str, float]):
    with pytest.raises(InputError, match="rate_bps"):
        EdgeProperties(**values)


@pytest.mark.parametrize("values", [{"delay_s": -1}, {"jitter_s": math.nan}, {"loss": 1.0}, {"loss": -0.1}])
def test_other_properties_out_of_range_are_refused(values: dict[str, float]):
    with pytest.raises(InputError, match=next(iter(values))):
        EdgeProperties(1e6, **values)


@pytest.mark.parametrize("name", ["", "  ", " a", "a\nb", "x" * 121])
def test_a_name_is_one_line_of_text(name: str):
    with pytest.raises(InputError, match="name"):
        Site(name)


def test_a_wan_made_in_code_is_checked_as_one_from_a_file():
    with pytest.raises(InputError, match="WAN w: the WAN is in pieces"):
        Wan("w", (Site("a"), Site("b"), Site("c")), (link("a", "b"),))


def test_a_wan_crosses_process_borders_unchanged():
    wan = line_of_three()

    assert wan_from_json(wan_to_json(wan)) == wan
