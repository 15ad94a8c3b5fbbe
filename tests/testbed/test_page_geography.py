"""Where sites lie on the dashboard's page."""

import itertools
import math

import pytest

from testbed.live.web import geography
from testbed.live.web.geography import MARGIN, WIDTH, lay_out
from topologies.model import EdgeProperties, Link, Site, Wan
from topologies.wanfile import load_wan

ANY = EdgeProperties(1e6)


def _wan(sites, links):
    return Wan("w", tuple(sites), tuple(Link(a, b, ANY, ANY) for a, b in links))


def test_two_sites_on_the_equator_lie_at_the_margins_at_one_height():
    layout = lay_out(
        _wan([Site("west", latitude=0, longitude=0), Site("east", latitude=0, longitude=40)], [("west", "east")])
    )

    assert layout.positions["west"] == (MARGIN, layout.height / 2)
    assert layout.positions["east"] == (WIDTH - MARGIN, layout.height / 2)


def test_north_is_up_and_east_is_right():
    layout = lay_out(load_wan("prism"))

    assert layout.positions["dublin"][1] < layout.positions["lisbon"][1] < layout.positions["fortaleza"][1]
    assert layout.positions["virginia"][0] < layout.positions["fortaleza"][0] < layout.positions["paris"][0]


def test_a_link_across_the_pacific_is_drawn_across_the_pacific():
    # given Tokyo (139.69° E) and Oregon (119.70° W), 100.61° apart over the date line, 259.39° the other way
    tokyo, oregon = Site("tokyo", latitude=35, longitude=139.69), Site("oregon", latitude=45, longitude=-119.70)
    # when
    layout = lay_out(_wan([tokyo, oregon], [("tokyo", "oregon")]))
    # then
    assert layout.positions["tokyo"][0] < layout.positions["oregon"][0]


def test_the_equator_and_a_latitude_are_projected_as_miller_did():
    # 45° N: 1.25 ln tan(45° + 18°) = 1.25 · ln 1.962610 = 0.842841 rad = 48.2912°
    assert geography._miller(10, 0) == pytest.approx((10, 0))
    assert geography._miller(10, 45) == pytest.approx((10, 48.2912), abs=1e-3)


@pytest.mark.parametrize("name", ["mesh4", "six", "prism", "b4"])
def test_sites_of_every_built_in_wan_can_be_told_apart_and_lie_on_the_map(name):
    layout = lay_out(load_wan(name))

    assert layout.land.startswith("M")
    for x, y in layout.positions.values():
        assert 0 < x < WIDTH
        assert 0 < y < layout.height
    distances = [math.dist(a, b) for a, b in itertools.combinations(layout.positions.values(), 2)]
    assert min(distances) > 30


def test_a_site_without_coordinates_makes_it_a_plain_graph_the_same_each_time():
    sites = [Site("a", latitude=1, longitude=1), Site("b"), Site("c"), Site("d")]
    wan = _wan(sites, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])

    layout = lay_out(wan)

    assert layout.land == ""
    assert layout == lay_out(wan)
    assert len(set(layout.positions.values())) == 4


def test_coastlines_are_closed_and_on_earth():
    for ring in geography.coastlines():
        assert len(ring) > 3
        assert all(-540 <= x <= 540 and -90 <= y <= 90 for x, y in ring)
        assert all(abs(a[0] - b[0]) < 90 for a, b in itertools.pairwise(ring)), "none leaps around the earth"
    assert len(geography.coastlines()) > 100
