"""Limits by hand calculation and against every cut there is."""

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.model import Edge
from workers.limits import allgather_limit_over_time_s, allgather_limit_s, ring_limit_s

SITES = ("a", "b", "c", "d", "e")
MIB = 2**20


def mesh(sites: str, rate_bps: float) -> dict[Edge, float]:
    return {(x, y): rate_bps for x in sites for y in sites if x != y}


def brute_force_s(capacities: dict[Edge, float], dcs: tuple[str, ...], size_bytes: float) -> float:
    sites = {site for edge in capacities for site in edge} | set(dcs)
    worst = 0.0
    for count in range(1, len(sites)):
        for cut in map(set, combinations(sorted(sites), count)):
            inside = len(cut & set(dcs))
            if 0 < inside < len(dcs):
                out = sum(rate for (src, dst), rate in capacities.items() if src in cut and dst not in cut)
                worst = max(worst, inside * 8 * size_bytes / out if out else math.inf)
    return worst


def test_full_mesh_of_four_at_100_mbit_is_bound_by_what_a_node_takes_in():
    # three shards of 8 MiB enter each DC over 3 × 100 Mbit/s
    limit = allgather_limit_s(mesh("abcd", 100e6), tuple("abcd"), 8 * MIB)
    assert limit == pytest.approx(3 * 8 * 8 * MIB / 300e6)


def test_one_ring_on_that_mesh_takes_three_times_as_long():
    routes = {pair: pair for pair in mesh("abcd", 1.0)}
    time_s = ring_limit_s(mesh("abcd", 100e6), tuple("abcd"), routes, 8 * MIB)
    assert time_s == pytest.approx(3 * 8 * 8 * MIB / 100e6)


def test_ring_edges_on_one_link_share_it():
    # given a and b at x, c and d at y, 100 Mbit/s to each and 30 Mbit/s between x and y
    access = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")]
    links = {link: 100e6 for link in access} | {("x", "y"): 30e6}
    edges = links | {(dst, src): rate for (src, dst), rate in links.items()}
    home = dict(access)
    routes = {
        (s, d): (s, home[s], d) if home[s] == home[d] else (s, home[s], home[d], d)
        for s in home
        for d in home
        if s != d
    }
    # a → b → c → d → a crosses x → y once: 3 shards of 1 MB at 30 Mbit/s
    assert ring_limit_s(edges, "abcd", routes, 1e6) == pytest.approx(3 * 8e6 / 30e6)
    # a → c → b → d → a crosses it twice, at 15 Mbit/s each
    assert ring_limit_s(edges, "acbd", routes, 1e6) == pytest.approx(3 * 8e6 / 15e6)


def test_two_dcs_joined_by_two_transit_sites():
    # a reaches b over x (30 Mbit/s) and y (20 Mbit/s): 50 Mbit/s carry a's megabyte
    edges = {("a", "x"): 30e6, ("x", "b"): 99e6, ("a", "y"): 99e6, ("y", "b"): 20e6, ("b", "a"): 100e6}
    assert allgather_limit_s(edges, ("a", "b"), 1e6) == pytest.approx(8e6 / 50e6)


def test_two_triangles_joined_by_one_thin_link_are_bound_by_it():
    # three shards of 1 MB leave each triangle over 10 Mbit/s
    edges = mesh("abc", 1e9) | mesh("def", 1e9) | {("a", "d"): 10e6, ("d", "a"): 10e6}
    assert allgather_limit_s(edges, tuple("abcdef"), 1e6) == pytest.approx(3 * 8e6 / 10e6)


def test_a_dc_that_is_cut_off_never_gets_its_shards():
    edges = mesh("abc", 1e6) | {("a", "c"): 0.0, ("b", "c"): 0.0}
    assert allgather_limit_s(edges, tuple("abc"), 1e6) == math.inf
    assert allgather_limit_over_time_s([(0.0, edges), (5.0, mesh("abc", 8e6))], tuple("abc"), 1e6, 0.0) > 5.0


@settings(max_examples=150, deadline=None)
@given(
    rates=st.lists(st.integers(0, 9), min_size=20, max_size=20),
    dcs=st.integers(2, 5).map(lambda count: SITES[:count]),
)
def test_the_limit_is_the_worst_cut(rates: list[int], dcs: tuple[str, ...]):
    edges = dict(zip(mesh("abcde", 1.0), (1e6 * rate for rate in rates), strict=True))
    assert allgather_limit_s(edges, dcs, 1e6) == pytest.approx(brute_force_s(edges, dcs, 1e6))


def test_a_drop_of_capacity_on_the_way_counts_from_when_it_comes():
    # two DCs, 8 Mbit/s: 1 MB takes 1 s. At 0.5 s half of it is through; at 2 Mbit/s the rest takes 2 s
    segments = [(0.0, mesh("ab", 8e6)), (10.5, mesh("ab", 2e6))]
    assert allgather_limit_over_time_s(segments, ("a", "b"), 1e6, 0.0) == pytest.approx(1.0)
    assert allgather_limit_over_time_s(segments, ("a", "b"), 1e6, 10.0) == pytest.approx(2.5)


@settings(max_examples=60, deadline=None)
@given(
    first=st.lists(st.integers(0, 9), min_size=12, max_size=12),
    second=st.lists(st.integers(1, 9), min_size=12, max_size=12),
    change_at=st.floats(0.1, 20),
    start=st.floats(0, 20),
)
def test_over_time_every_cut_carries_its_shards_and_one_of_them_only_just(
    first: list[int], second: list[int], change_at: float, start: float
):
    early = dict(zip(mesh("abcd", 1.0), (1e6 * rate for rate in first), strict=True))
    late = dict(zip(mesh("abcd", 1.0), (1e6 * rate for rate in second), strict=True))
    limit = allgather_limit_over_time_s([(0.0, early), (change_at, late)], tuple("abc"), 1e6, start)
    before = max(0.0, min(change_at, start + limit) - start)
    after = limit - before
    carried = {edge: (early[edge] * before + late[edge] * after) for edge in early}
    # constant capacities that carry the same bits in one second have a limit of one second
    assert brute_force_s(carried, tuple("abc"), 1e6) == pytest.approx(1.0)


def test_capacities_that_are_not_known_at_the_start_are_refused():
    with pytest.raises(ValueError, match="not known"):
        allgather_limit_over_time_s([(5.0, mesh("ab", 1.0))], ("a", "b"), 1, 4.0)
