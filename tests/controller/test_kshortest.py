"""The k shortest paths against networkx, on graphs too large for looking at every path."""

from __future__ import annotations

import random
from itertools import islice, pairwise

import networkx
import pytest

from controller.kshortest import KShortest, whole_lengths

Lengths = dict[tuple[str, str], float]


def _random_lengths(seed: int, ties: bool) -> Lengths:
    stream = random.Random(seed)
    graph = networkx.gnm_random_graph(20, 50, seed)
    edges = [(f"s{a:02}", f"s{b:02}") for a, b in graph.edges]
    return {edge: 1.0 if ties else stream.uniform(0.001, 0.03) for a, b in edges for edge in ((a, b), (b, a))}


@pytest.mark.parametrize("ties", [False, True], ids=["each its own length", "all of one length"])
@pytest.mark.parametrize("seed", range(4))
def test_paths_are_as_long_as_those_of_networkx_and_in_order(seed: int, ties: bool):
    lengths = _random_lengths(seed, ties)
    whole = whole_lengths(lengths)
    graph = networkx.DiGraph([(a, b, {"weight": length}) for (a, b), length in whole.items()])
    shortest = KShortest(lengths)
    for source, target in [("s00", "s10"), ("s03", "s19"), ("s12", "s01"), ("s07", "s08")]:
        expected = islice(networkx.shortest_simple_paths(graph, source, target, weight="weight"), 8)

        found = shortest.routes(source, target, 8)

        keys = [(sum(whole[edge] for edge in pairwise(route)), route) for route in found]
        assert keys == sorted(keys) and len(set(found)) == 8
        assert [length for length, _ in keys] == [sum(whole[edge] for edge in pairwise(path)) for path in expected]
        assert all(len(set(route)) == len(route) for route in found)


def test_a_dead_end_full_of_ways_holds_nothing_up():
    # The only other way out of a leads into a clique of 12 that nothing leaves: 12! ways to get lost, none to b.
    clique = [f"k{number}" for number in range(12)]
    links = [("a", "b"), ("a", "k0"), *((one, other) for one in clique for other in clique if one < other)]
    lengths = {edge: 1.0 for a, b in links for edge in ((a, b), (b, a))}

    assert KShortest(lengths).routes("a", "b", 4) == [("a", "b")]


def test_a_site_that_cannot_be_reached_has_no_path():
    assert KShortest({("a", "b"): 1.0, ("b", "a"): 1.0, ("c", "a"): 1.0}).routes("a", "c", 4) == []
