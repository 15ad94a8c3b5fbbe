"""The dashboard's coastlines, out of TopoJSON."""

from filming.coastlines import coastlines

TRANSFORM = {"scale": [0.5, 0.25], "translate": [-180, -90]}
"""A point [x, y] is at 0.5 x − 180 degrees east, 0.25 y − 90 degrees north."""


def _land(arcs, *polygons):
    geometry = {"type": "MultiPolygon", "arcs": list(polygons)}
    return {"transform": TRANSFORM, "arcs": arcs, "objects": {"land": {"geometries": [geometry]}}}


def test_arcs_hold_differences_and_become_tenths_of_degrees():
    # (0°, 0°), then 10° east, 10° north, back
    arc = [[360, 360], [20, 0], [0, 40], [-20, -40]]

    assert coastlines(_land([arc], [[0]])) == [[(0, 0), (100, 0), (100, 100), (0, 0)]]


def test_a_negative_index_is_an_arc_the_other_way_round():
    there, back = [[360, 360], [20, 0], [0, 40]], [[360, 360], [0, 40], [20, 0]]

    assert coastlines(_land([there, back], [[0, -2]])) == [[(0, 0), (100, 0), (100, 100), (0, 100), (0, 0)]]


def test_a_coast_across_the_date_line_goes_on_instead_of_leaping_around_the_earth():
    # 175° E, 175° W, and back: 10 degrees, not 350
    arc = [[710, 360], [-700, 0], [0, 40], [700, -40]]

    assert coastlines(_land([arc], [[0]])) == [[(1750, 0), (1850, 0), (1850, 100), (1750, 0)]]


def test_antarctica_is_left_out_and_a_sea_in_the_land_is_kept():
    antarctica = [[360, 20], [20, 0], [0, 40], [-20, -40]]
    outer, inner = [[360, 360], [80, 0], [0, 80], [-80, -80]], [[380, 370], [20, 0], [0, 20], [-20, -20]]

    rings = coastlines(_land([antarctica, outer, inner], [[0]], [[1], [2]]))

    assert [ring[0] for ring in rings] == [(0, 0), (100, 25)]
