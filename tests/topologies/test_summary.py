from __future__ import annotations

import pytest

from topologies import EdgeProperties, Link, Site, Wan
from topologies.builtins import builtin, builtin_names
from topologies.geography import fibre_delay_s, great_circle_km
from topologies.summary import draw_map, headline, summary, table


def test_a_quarter_of_the_equator_is_a_quarter_of_the_circumference():
    # 2π · 6371.0088 km ÷ 4 = 10007.557 km
    assert great_circle_km(Site("a", latitude=0, longitude=0), Site("b", latitude=0, longitude=90)) == pytest.approx(
        10007.557, abs=0.001
    )


def test_the_way_across_the_date_line_is_the_short_one():
    # 2° on the equator = 222.390 km
    assert great_circle_km(
        Site("a", latitude=0, longitude=179), Site("b", latitude=0, longitude=-179)
    ) == pytest.approx(222.390, abs=0.001)


def test_opposite_points_are_half_the_circumference_apart():
    assert great_circle_km(Site("a", latitude=90, longitude=0), Site("b", latitude=-90, longitude=0)) == pytest.approx(
        20015.115, abs=0.001
    )


def test_a_site_without_place_has_no_distance():
    assert great_circle_km(Site("a", latitude=0, longitude=0), Site("b")) is None


def test_light_takes_about_five_microseconds_for_a_kilometre_of_fibre():
    assert fibre_delay_s(1.0) == pytest.approx(4.897e-6, rel=1e-3)


def test_a_headline_counts_sites_and_links_and_spans_the_rates():
    assert headline(builtin("six")) == "six: 6 DCs, 9 links, 40 Mbit/s to 60 Mbit/s"
    assert headline(builtin("mesh4")) == "mesh4: 4 DCs, 6 links, 100 Mbit/s"


@pytest.mark.parametrize("name", builtin_names())
def test_a_summary_names_every_site_and_every_link(name: str):
    wan = builtin(name)

    text = summary(wan)

    assert all(site.name in text for site in wan.sites)
    assert all(link.name in text for link in wan.links)


def test_a_map_shows_sites_where_they_lie_and_links_between_them():
    properties = EdgeProperties(1e6)
    sites = (Site("west", latitude=10, longitude=-10), Site("east", latitude=-10, longitude=10))
    wan = Wan("w", sites, (Link("west", "east", properties, properties),))

    rows = draw_map(wan).splitlines()

    assert rows[0].startswith("1")
    assert rows[-1].endswith("2")
    assert sum(row.count("·") for row in rows) == 76 - 2


def test_a_wan_without_coordinates_is_summed_up_without_a_map():
    there, back = EdgeProperties(1e6, 0.02, 0.001), EdgeProperties(2e6, 0.02, 0.001, 0.01)
    wan = Wan(
        "w",
        (Site("a"), Site("b"), Site("hub", "transit")),
        (Link("a", "hub", there, back), Link("b", "hub", there, back)),
    )

    assert draw_map(wan) == ""
    assert headline(wan) == "w: 2 DCs, 1 transit, 2 links, 1 Mbit/s to 2 Mbit/s"
    assert "a-hub  1 Mbit/s → ← 2 Mbit/s  20 ms ± 1 ms → ← 20 ms ± 1 ms, loss 0.01  ?       ?" in summary(wan)


def test_columns_are_aligned():
    assert table([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"
