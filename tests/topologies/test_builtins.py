from __future__ import annotations

import networkx as nx
import pytest

from topologies import InputError, Wan
from topologies.builtins import builtin, builtin_names


def graph(wan: Wan) -> nx.Graph:
    return nx.Graph((link.a, link.b) for link in wan.links)


def test_the_built_in_wans_are_the_four_documented_ones():
    assert builtin_names() == ["b4", "mesh4", "prism", "six"]


@pytest.mark.parametrize(("name", "dcs", "links"), [("mesh4", 4, 6), ("six", 6, 9), ("prism", 6, 9), ("b4", 12, 19)])
def test_each_has_its_number_of_dcs_and_links_with_coordinates_and_without_delay(name: str, dcs: int, links: int):
    wan = builtin(name)

    assert wan.name == name
    assert len(wan.dcs) == len(wan.sites) == dcs
    assert len(wan.links) == links
    assert all(site.latitude is not None and site.longitude is not None for site in wan.sites)
    assert all(properties.delay_s == 0 for properties in wan.edges.values())


def test_mesh4_joins_everybody_to_everybody_at_100_mbit():
    wan = builtin("mesh4")

    assert nx.is_isomorphic(graph(wan), nx.complete_graph(4))
    assert {properties.rate_bps for properties in wan.edges.values()} == {100e6}
    assert wan.link("tokyo-oregon").name == "tokyo-oregon"


def test_six_is_a_ring_with_three_chords_between_opposite_sites():
    opposite = nx.cycle_graph(6)
    opposite.add_edges_from([(0, 3), (1, 4), (2, 5)])

    assert nx.is_isomorphic(graph(builtin("six")), opposite)


def test_prism_is_two_triangles_joined_by_three_links():
    assert nx.is_isomorphic(graph(builtin("prism")), nx.circular_ladder_graph(3))


def test_b4_has_the_published_links():
    # Numbers as in the topology file of TEAVAR (SIGCOMM 2019) for figure 1 of the B4 paper.
    neighbours = {1: (2, 3), 2: (5,), 3: (4, 6), 4: (5, 7, 8), 5: (6,), 6: (7, 8), 7: (8, 11), 8: (10,)}
    neighbours |= {9: (10, 11), 10: (11, 12), 11: (12,)}
    published = nx.Graph(neighbours)

    assert nx.is_isomorphic(graph(builtin("b4")), published)


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(InputError, match="did you mean 'prism'"):
        builtin("prysm")
