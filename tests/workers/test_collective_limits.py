"""Limits by hand calculation and against every cut there is."""

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.randomwans import sparse_network
from topologies.model import Edge
from workers.limits import (
    LIMITS,
    all_reduce_limit_s,
    all_to_all_limit_s,
    allgather_limit_over_time_s,
    allgather_limit_s,
    broadcast_limit_s,
    limit_fraction,
    limit_s,
    reduce_scatter_limit_s,
    ring_limit_s,
)
from workers.schedules.packing import trees

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


def cuts(capacities: dict[Edge, float], dcs: tuple[str, ...]) -> list[tuple[int, float]]:
    """For every cut that splits the DCs: how many it holds, and what leaves it."""
    sites = sorted({site for edge in capacities for site in edge} | set(dcs))
    found = []
    for count in range(1, len(sites)):
        for cut in map(set, combinations(sites, count)):
            inside = len(cut & set(dcs))
            if 0 < inside < len(dcs):
                out = sum(rate for (src, dst), rate in capacities.items() if src in cut and dst not in cut)
                found.append((inside, out))
    return found


def worst_s(entries: list[tuple[float, float]]) -> float:
    return max(bits / rate if rate else math.inf for bits, rate in entries)


RATES = st.lists(st.integers(0, 9), min_size=20, max_size=20)
SOME_DCS = st.integers(2, 5).map(lambda count: SITES[:count])


def network(rates: list[int]) -> dict[Edge, float]:
    return dict(zip(mesh("abcde", 1.0), (1e6 * rate for rate in rates), strict=True))


@settings(max_examples=80, deadline=None)
@given(rates=RATES, dcs=SOME_DCS)
def test_a_reduce_scatter_is_bound_by_what_has_to_come_into_every_set(rates: list[int], dcs: tuple[str, ...]):
    edges = network(rates)
    reverse = {(b, a): rate for (a, b), rate in edges.items()}
    assert reduce_scatter_limit_s(edges, dcs, 1e6) == pytest.approx(brute_force_s(reverse, dcs, 1e6))


@settings(max_examples=80, deadline=None)
@given(rates=RATES, dcs=SOME_DCS)
def test_an_all_reduce_is_bound_by_its_narrowest_cut_and_by_the_count_of_messages(
    rates: list[int], dcs: tuple[str, ...]
):
    edges = network(rates)
    out = sum(rate for (a, _), rate in edges.items() if a in dcs)
    into = sum(rate for (_, b), rate in edges.items() if b in dcs)
    counted = worst_s([(2 * (len(dcs) - 1) * 8e6, min(out, into))])
    narrowest = worst_s([(8e6, leaving) for _, leaving in cuts(edges, dcs)])
    assert all_reduce_limit_s(edges, dcs, 1e6) == pytest.approx(max(counted, narrowest))


@settings(max_examples=80, deadline=None)
@given(rates=RATES)
def test_the_bound_of_an_all_reduce_is_never_above_what_its_two_phases_can_reach(rates: list[int]):
    # given DCs alone, where both phases reach their limits: one after the other, on n shards, they are an AllReduce
    edges, shard = network(rates), 1e6 / len(SITES)
    both = reduce_scatter_limit_s(edges, SITES, shard) + allgather_limit_s(edges, SITES, shard)
    assert all_reduce_limit_s(edges, SITES, 1e6) <= both * (1 + 1e-9)


def test_capacities_that_are_no_round_numbers_are_no_trouble():
    # sums of floats that do not cancel exactly have broken max-flow codes before
    rates = [0, 0, 9, 1, 0, 2, 3, 5, 0, 0, 0, 9, 1, 3, 0, 5, 0, 0, 9, 0]
    for third in range(1, 40):
        edges = {edge: rate * (1 + third / 3) * 0.1 for edge, rate in network(rates).items()}
        assert allgather_limit_s(edges, SITES, 1e6 / 3) == pytest.approx(brute_force_s(edges, SITES, 1e6 / 3))


def test_on_a_full_mesh_an_all_reduce_can_only_just_be_both_phases():
    # 4 DCs, 100 Mbit/s: each sends 2 · 3/4 of its buffer over 300 Mbit/s
    assert all_reduce_limit_s(mesh("abcd", 100e6), tuple("abcd"), 8e6) == pytest.approx(1.5 * 64e6 / 300e6)


@settings(max_examples=60, deadline=None)
@given(rates=RATES, dcs=SOME_DCS)
def test_a_broadcast_is_bound_by_the_narrowest_cut_around_its_root(rates: list[int], dcs: tuple[str, ...]):
    edges = network(rates)
    around = [
        (8e6, sum(rate for (src, dst), rate in edges.items() if src in cut and dst not in cut))
        for count in range(1, 5)
        for cut in map(set, combinations(SITES, count))
        if dcs[0] in cut and not set(dcs) <= cut
    ]
    assert broadcast_limit_s(edges, dcs, 1e6, dcs[0]) == pytest.approx(worst_s(around))


@settings(max_examples=60, deadline=None)
@given(rates=RATES, dcs=SOME_DCS)
def test_an_all_to_all_takes_at_least_what_every_cut_needs(rates: list[int], dcs: tuple[str, ...]):
    edges = network(rates)
    needed = worst_s([(inside * (len(dcs) - inside) * 8e6, leaving) for inside, leaving in cuts(edges, dcs)])
    assert all_to_all_limit_s(edges, dcs, 1e6) >= needed * (1 - 1e-6)


def test_an_all_to_all_over_a_relay_uses_its_links_twice():
    # a – b – c, 10 Mbit/s a direction: a → b carries a's megabytes for b and c
    edges = {("a", "b"): 10e6, ("b", "a"): 10e6, ("b", "c"): 10e6, ("c", "b"): 10e6}
    assert all_to_all_limit_s(edges, ("a", "b", "c"), 1e6) == pytest.approx(2 * 8e6 / 10e6)


def test_the_fraction_reached_is_1_at_the_limit_and_unknown_without_one():
    assert limit_fraction(0.5, 2.0) == 0.25
    assert limit_fraction(2.0, 2.0) == 1.0
    assert limit_fraction(math.inf, 2.0) is None
    assert limit_fraction(None, 2.0) is None


def test_every_collective_has_its_limit_by_name():
    edges = mesh("abcd", 100e6)
    # 8 MB each: all_gather and reduce_scatter take 3 of them in over 300 Mbit/s, all_to_all 3 too
    known = {name: limit_s(name, edges, tuple("abcd"), 8e6) for name in (*LIMITS, "broadcast")}
    assert known == pytest.approx(
        {
            "all_gather": 0.64,
            "reduce_scatter": 0.64,
            "all_reduce": 0.32,
            "all_to_all": 0.64,
            "broadcast": 64e6 / 300e6,
        }
    )


@settings(max_examples=25, deadline=None)
@given(dcs=st.integers(2, 7), seed=st.integers(0, 10**6))
def test_the_packing_of_trees_reaches_the_limit_where_every_site_is_a_dc(dcs: int, seed: int):
    # two programs that share nothing: cuts by max-flow, arborescences by column generation
    network = sparse_network(dcs, seed)
    names = [str(rank) for rank in range(dcs)]
    rate_bps = 8e6 / allgather_limit_s(network.capacities_bps, names, 1e6)
    packed = trees(network, dcs)
    assert packed.bound_bps == pytest.approx(rate_bps, rel=2e-4)
    assert packed.shard_bps == pytest.approx(rate_bps, rel=0.02)
    assert packed.shard_bps <= rate_bps * (1 + 1e-9)
