"""Ring policies against brute force and hand-made networks."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.errors import InputError
from workers.policies import NEED_LINKS, POLICIES, RingView
from workers.policies.bottleneck import best_ring
from workers.policies.tours import EXACT_RANKS
from workers.policies.view import Matrix, bottleneck_bps, from_first
from workers.registry import find


def matrices(smallest: int, largest: int) -> st.SearchStrategy[Matrix]:
    def of_size(n: int) -> st.SearchStrategy[Matrix]:
        row = st.lists(st.integers(0, 20).map(float), min_size=n, max_size=n).map(tuple)
        return st.lists(row, min_size=n, max_size=n).map(tuple)

    return st.integers(smallest, largest).flatmap(of_size)


def view(bandwidths: Matrix, **fields: object) -> RingView:
    listed = tuple(range(len(bandwidths)))
    return RingView(bandwidths, **{"current": listed, "listed": listed, **fields})  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(matrices(2, 7))
def test_the_bottleneck_policy_is_optimal_on_asymmetric_networks(bandwidths: Matrix):
    chosen = POLICIES["bottleneck"](view(bandwidths))
    rings = ((0, *rest) for rest in permutations(range(1, len(bandwidths))))
    assert sorted(chosen) == list(range(len(bandwidths)))
    assert bottleneck_bps(bandwidths, chosen) == max(bottleneck_bps(bandwidths, ring) for ring in rings)


def test_the_direction_of_a_slow_link_matters():
    # given three DCs where only 1 → 0, 0 → 2 and 2 → 1 are fast, when the ring runs 0 → 1 → 2
    bandwidths = ((0.0, 1.0, 9.0), (9.0, 0.0, 1.0), (1.0, 9.0, 0.0))
    # then the other direction is chosen
    assert POLICIES["bottleneck"](view(bandwidths)) == (0, 2, 1)


def test_a_tie_keeps_the_current_order():
    bandwidths = ((0.0, 5.0, 5.0, 5.0),) * 4
    assert POLICIES["bottleneck"](view(bandwidths, current=(2, 0, 3, 1))) == (2, 0, 3, 1)


def test_a_gain_within_the_margin_keeps_the_current_order():
    # the ring 0 → 1 → 2 has its bottleneck at 10, the other direction at 11: a gain of exactly 10 %
    bandwidths = ((0.0, 10.0, 11.0), (11.0, 0.0, 20.0), (20.0, 11.0, 0.0))
    assert POLICIES["bottleneck"](view(bandwidths, margin=0.1)) == (0, 1, 2)
    assert POLICIES["bottleneck"](view(bandwidths, margin=0.09)) == (0, 2, 1)


def test_a_path_that_is_gone_is_left_whatever_the_margin():
    bandwidths = ((0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0))
    assert POLICIES["bottleneck"](view(bandwidths, margin=5.0)) == (0, 2, 1)


def test_beyond_the_exact_size_the_only_fast_ring_is_found():
    # given 15 ranks where the ring of steps of seven is fast and everything else slow
    n = EXACT_RANKS + 2
    bandwidths = tuple(tuple(9.0 if (b - a) % n == 7 else 1.0 for b in range(n)) for a in range(n))
    ring = best_ring(bandwidths, tuple(range(n)))
    assert bottleneck_bps(bandwidths, ring) == 9.0


@settings(max_examples=20, deadline=None)
@given(matrices(EXACT_RANKS + 1, EXACT_RANKS + 2))
def test_beyond_the_exact_size_the_ring_is_never_worse_than_the_current_one(bandwidths: Matrix):
    current = tuple(range(len(bandwidths)))
    ring = best_ring(bandwidths, current)
    assert sorted(ring) == list(current)
    assert bottleneck_bps(bandwidths, ring) >= bottleneck_bps(bandwidths, current)


@given(n=st.integers(3, 8), seed=st.integers(0, 99), turn=st.integers(0, 99))
def test_the_placebo_takes_another_ring_each_time_and_the_same_one_from_the_same_seed(n: int, seed: int, turn: int):
    seen = view(((1.0,) * n,) * n, seed=seed, turn=turn)
    chosen = POLICIES["random"](seen)
    assert sorted(chosen) == list(range(n))
    assert from_first(chosen) != from_first(seen.current)
    assert chosen == POLICIES["random"](seen)


def test_two_ranks_have_one_ring():
    for name in POLICIES.keys() - NEED_LINKS:
        assert from_first(POLICIES[name](view(((0.0, 1.0), (9.0, 0.0))))) == (0, 1)


def test_fixed_returns_to_the_listed_order():
    assert POLICIES["fixed"](view(((1.0,) * 3,) * 3, current=(2, 1, 0))) == (0, 1, 2)


def test_a_policy_of_ones_own_is_named_by_module_and_function():
    assert find(POLICIES, "workers.policies.placebo:fixed", "ring policy") is POLICIES["fixed"]


@pytest.mark.parametrize("name", ["botleneck", "nowhere:policy", "workers.policies:POLICIES", ":"])
def test_a_policy_that_does_not_exist_is_a_clear_error(name: str):
    with pytest.raises(InputError, match="ring policy"):
        find(POLICIES, name, "ring policy")
