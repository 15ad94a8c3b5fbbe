"""Planned schedules on paper: every element arrives, none faster than the limit, trees near it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper import Plans, duration_s, executed

from benchmarks.randomwans import sparse_network
from workers.limits import allgather_limit_s, reduce_scatter_limit_s
from workers.network import Network, isolated, network_of, reversed_network, ring_bps
from workers.schedules import SCHEDULES
from workers.schedules.choice import PLANNERS, compared, planned
from workers.schedules.forest import (
    Forest,
    Tree,
    along_ring,
    check,
    forest_from_json,
    forest_to_json,
    plan_of,
    predicted_s,
    shard_bps,
)
from workers.schedules.packing import NoSchedule, rings, trees
from workers.schedules.plan import Chunk, RankPlan
from workers.schedules.reverse import all_reduce, reduce_scatter

ELEMENT_BYTES = 4


def plans_of(forest: Forest, ranks: int, shard: int, chunk: int) -> dict[int, RankPlan]:
    return {rank: plan_of(forest, rank, shard, chunk) for rank in range(ranks)}


def limit_s(network: Network, ranks: int, size_bytes: int) -> float:
    return allgather_limit_s(network.capacities_bps, [str(rank) for rank in range(ranks)], size_bytes)


def assert_everything_is_everywhere(held: dict[int, list[Chunk]], shard: int) -> None:
    for chunks in held.values():
        for owner in held:
            pieces = sorted({(c.begin, c.end) for c in chunks if c.shard == owner})
            assert pieces[0][0] == 0
            assert pieces[-1][1] == shard
            assert all(end == begin for (_, end), (begin, _) in pairwise(pieces))


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(sorted(PLANNERS)),
    ranks=st.integers(2, 6),
    transit=st.integers(0, 2),
    seed=st.integers(0, 10**6),
    shard=st.integers(1, 400),
    chunk=st.integers(1, 60),
)
def test_every_schedule_brings_every_element_to_every_rank(
    name: str, ranks: int, transit: int, seed: int, shard: int, chunk: int
):
    forest = PLANNERS[name](sparse_network(ranks, seed, transit), tuple(range(ranks)))
    check(forest, ranks)
    assert_everything_is_everywhere(executed(plans_of(forest, ranks, shard, chunk)), shard)
    assert forest_from_json(forest_to_json(forest)) == forest


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_every_schedule_by_order_does_too(name: str):
    plans = {rank: SCHEDULES[name]((2, 0, 3, 1), rank, 11, 2) for rank in range(4)}
    assert_everything_is_everywhere(executed(plans), 11)


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(PLANNERS)), ranks=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_nothing_is_faster_than_the_limit_and_the_prediction_holds(name: str, ranks: int, seed: int):
    network, shard, chunk = sparse_network(ranks, seed), 2**18, 2**12
    size_bytes, chunk_bytes = ELEMENT_BYTES * shard, ELEMENT_BYTES * chunk
    forest = PLANNERS[name](network, tuple(range(ranks)))
    took_s = duration_s(plans_of(forest, ranks, shard, chunk), network, ELEMENT_BYTES)
    foretold_s = predicted_s(network, forest, size_bytes, chunk_bytes)
    assert took_s >= limit_s(network, ranks, size_bytes) * (1 - 1e-9)
    assert 8 * size_bytes / shard_bps(network, forest) >= limit_s(network, ranks, size_bytes) * (1 - 1e-9)
    # chunks that meet at a link may wait for one another beyond what was foreseen
    assert took_s == pytest.approx(foretold_s, rel=0.15)


def test_packed_trees_come_within_a_tenth_of_the_limit_on_paper_and_rings_do_what_they_can():
    fractions: dict[str, list[float]] = {name: [] for name in PLANNERS}
    for seed in range(12):
        network = sparse_network(6, seed)
        for plan in compared(network, tuple(range(6)), 8 * 2**20, 128 * 2**10):
            took_s = duration_s(plans_of(plan.forest, 6, 2**21, 2**15), network, ELEMENT_BYTES)
            fractions[plan.name].append(limit_s(network, 6, 8 * 2**20) / took_s)
    assert min(fractions["trees"]) > 0.9
    assert sum(fractions["multiring"]) > 1.5 * sum(fractions["ring"])


@settings(max_examples=30, deadline=None)
@given(ranks=st.integers(3, 6), transit=st.integers(0, 3), seed=st.integers(0, 10**6))
def test_more_rings_are_never_slower_than_the_best_one_and_trees_never_than_rings(ranks: int, transit: int, seed: int):
    network = sparse_network(ranks, seed, transit)
    several, packed = rings(network, ranks), trees(network, ranks)
    best_bps = max(ring_bps(network, tree) for tree in _orders(ranks)) / (ranks - 1)
    # trees of tiny shares are left out, which may cost a little
    assert several.shard_bps >= best_bps * 0.97
    assert packed.shard_bps >= several.shard_bps * 0.97
    assert several.shard_bps <= several.bound_bps * (1 + 1e-6)
    assert packed.shard_bps <= packed.bound_bps * (1 + 1e-6)
    assert len(several.forest) <= 6 * ranks


def _orders(ranks: int) -> list[tuple[int, ...]]:
    from itertools import permutations

    return [(0, *rest) for rest in permutations(range(1, ranks))]


def test_where_links_differ_by_direction_two_rings_share_in_proportion():
    # clockwise 30 Mbit/s, the other way 10: three quarters and one quarter of every shard, 40 Mbit/s in all
    there = [("0", "1"), ("1", "2"), ("2", "0")]
    rates = {edge: 30e6 for edge in there} | {(b, a): 10e6 for a, b in there}
    network = network_of(rates, {edge: edge for edge in rates}, "012")
    forest = PLANNERS["bidirectional"](network, (0, 1, 2))
    assert sorted(tree.share for tree in forest) == pytest.approx([0.25] * 3 + [0.75] * 3)
    assert shard_bps(network, forest) == pytest.approx(40e6 / 2)
    # 1 MB per rank over that
    assert predicted_s(network, forest, 10**6, 1) == pytest.approx(8e6 / 20e6, rel=1e-4)


def test_a_star_is_packed_as_a_star():
    # three DCs at a hub that is a DC: the hub's links of 10 Mbit/s carry what the other three need
    spokes = [("0", leaf) for leaf in "123"]
    rates = {edge: 10e6 for a, b in spokes for edge in ((a, b), (b, a))}
    routes = {edge: edge for edge in rates}
    packed = trees(network_of(rates, routes, "0123"), 4)
    # each leaf takes in three shards over its one link
    assert packed.shard_bps == pytest.approx(10e6 / 3)
    assert packed.bound_bps == pytest.approx(10e6 / 3, rel=1e-3)


def test_a_rank_that_is_cut_off_has_no_schedule():
    rates = {("0", "1"): 1e6, ("1", "0"): 1e6}
    network = network_of(rates, {edge: edge for edge in rates}, "012")
    for name in ("multiring", "trees"):
        with pytest.raises(NoSchedule):
            PLANNERS[name](network, (0, 1, 2))


def test_the_choice_is_what_should_end_first():
    network = sparse_network(6, 3)
    plans = {plan.name: plan for plan in compared(network, tuple(range(6)), 8 * 2**20, 2**17)}
    chosen = planned("auto", network, tuple(range(6)), 8 * 2**20, 2**17)
    assert chosen.name == "trees"
    assert chosen.time_s == min(plan.time_s for plan in plans.values())
    # a plain ring is enough where there is nothing else to use
    one_way = {(str(a), str((a + 1) % 4)): 1e6 for a in range(4)}
    around = network_of(one_way, {edge: edge for edge in one_way}, "0123")
    assert planned("auto", around, (0, 1, 2, 3), 2**20, 2**15).name == "ring"


def test_pairs_alone_can_be_planned_for_too():
    # measured between pairs: a full mesh of 10 Mbit/s has room for a shard per third of 30 Mbit/s
    packed = trees(isolated(tuple(tuple(10e6 for _ in range(4)) for _ in range(4))), 4)
    assert packed.shard_bps == pytest.approx(10e6, rel=1e-3)


def test_a_forest_that_misses_a_rank_is_refused():
    with pytest.raises(ValueError, match="does not reach every rank"):
        check((Tree(0, ((0, 1),)), Tree(1, ((1, 0),)), Tree(2, ((2, 0), (0, 1)))), 3)
    with pytest.raises(ValueError, match="whole shard"):
        check(along_ring((0, 1, 2), 0.4), 3)


def reduced(plans: Plans, parts: dict[int, dict[int, int]]) -> dict[int, dict[Chunk, int]]:
    """Every rank's sums of its own shard, when the reversed plans have run; `parts[rank][shard]` is what it adds."""
    reduce_plans = {rank: reduce_scatter(plan) for rank, plan in plans.items()}
    arrived: dict[tuple[int, int, int], int] = {}
    results: dict[int, dict[Chunk, int]] = {rank: {} for rank in plans}
    waiting = [(rank, each) for rank, plan in reduce_plans.items() for each in plan.sums]
    while waiting:
        ready = [(r, s) for r, s in waiting if all((p.source, r, p.number) in arrived for p in s.parts)]
        assert ready, "somebody waits for ever"
        for rank, each in ready:
            total = parts[rank][each.chunk.shard] + sum(arrived[p.source, rank, p.number] for p in each.parts)
            if each.send is None:
                results[rank][each.chunk] = total
            else:
                arrived[rank, each.send.to, each.send.number] = total
        waiting = [entry for entry in waiting if entry not in ready]
    return results


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(PLANNERS)), ranks=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_the_reverse_of_every_gather_sums_every_part_exactly_once(name: str, ranks: int, seed: int):
    network, shard = sparse_network(ranks, seed), 60
    forest = PLANNERS[name](reversed_network(network), tuple(range(ranks)))
    plans = plans_of(forest, ranks, shard, 7)
    # each rank's part is a digit of its own, so that a part missing or twice would show
    parts = {rank: {owner: 10**rank for owner in range(ranks)} for rank in range(ranks)}
    results = reduced(plans, parts)
    for rank, chunks in results.items():
        pieces = sorted((c.begin, c.end) for c in chunks)
        assert (pieces[0][0], pieces[-1][1]) == (0, shard)
        assert all(c.shard == rank and total == int("1" * ranks) for c, total in chunks.items())
    # and the rate of the reverse is bound by the limit of a ReduceScatter
    names = [str(rank) for rank in range(ranks)]
    time_s = 8e6 / shard_bps(reversed_network(network), forest)
    assert time_s >= reduce_scatter_limit_s(network.capacities_bps, names, 1e6) * (1 - 1e-9)


def test_an_all_reduce_is_the_one_and_then_the_other():
    gather = along_ring((0, 1, 2))
    plan = plan_of(gather, 1, 8, 4)
    both = all_reduce(plan, plan)
    assert both.gather == plan
    assert both.reduce == reduce_scatter(plan)
    # the ring's rank 1 sent its shard to 2 and took 0's on to 2: reversed, it adds what 2 sends and gives it to 0
    passed = [each for each in both.reduce.sums if each.chunk.shard == 0]
    assert {(part.source) for each in passed for part in each.parts} == {2}
    assert {each.send.to for each in passed if each.send} == {0}
