from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views import DIAMOND, view_of, with_rates
from wans import random_wans, wan_of

from controller.policies import fairloops, fairsearch
from controller.policies.fairsearch import solve
from controller.policies.fairshare import (
    Problem,
    is_fairer,
    problem_of,
    sorted_shares,
)
from controller.policies.maxmin import MaxMin
from controller.policies.relaxation import largest_smallest_share, smallest_share_bound_bps
from controller.policies.widest import Widest
from controller.view import edges_of
from topologies import Wan

AB, CB = ("a", "b"), ("c", "b")


def _first_choices(problem: Problem) -> numpy.ndarray:
    return numpy.array([choices[0] for choices in problem.choices])


def _drawn_problem(wan: Wan, data: st.DataObject, most: int) -> Problem:
    candidates = view_of(wan, 3).candidates
    pairs = data.draw(st.lists(st.sampled_from(list(candidates)), min_size=1, max_size=most))
    rates = {edge: properties.rate_bps for edge, properties in wan.edges.items()}
    return problem_of([candidates[pair] for pair in pairs], rates)


def _brute_force(problem: Problem) -> list[float]:
    """The fairest ascending shares, by looking at every assignment."""
    everything = numpy.array(list(product(*problem.choices)))
    return max(numpy.round(sorted_shares(problem, everything), 3).tolist())


def test_shares_are_filled_up_together_and_the_narrowest_stops_first():
    # Three flows on ab (30): one goes on over bc (6), one over bd (8). They get 6, 8 and what is left: 16.
    rates = {("a", "b"): 30.0, ("b", "c"): 6.0, ("b", "d"): 8.0}
    problem = problem_of([[("a", "b", "c")], [("a", "b", "d")], [("a", "b")]], rates)

    assert sorted_shares(problem, numpy.array([[0, 1, 2]])).tolist() == [[6.0, 8.0, 16.0]]


def test_a_flow_over_a_link_of_no_capacity_gets_nothing_and_takes_nothing():
    problem = problem_of([[("a", "b", "c")], [("a", "b")]], {("a", "b"): 10.0, ("b", "c"): 0.0})

    assert sorted_shares(problem, numpy.array([[0, 1]])).tolist() == [[0.0, 10.0]]


@pytest.mark.parametrize(
    ("shares", "than", "margin", "fairer"),
    [
        ([2.0, 5.0], [2.0, 4.0], 0.1, True),
        ([1.0, 9.0], [2.0, 4.0], 0.1, False),
        ([2.1, 4.0], [2.0, 4.0], 0.1, False),  # 5 % is within the margin
        ([2.1, 4.0], [2.0, 5.0], 0.1, False),
        ([2.3, 1.0], [2.0, 5.0], 0.1, True),
        ([0.0, 1.0], [0.0, 0.0], 0.1, True),
    ],
)
def test_the_first_share_that_differs_by_more_than_the_margin_decides(shares, than, margin, fairer):
    assert is_fairer(shares, than, margin) is fairer


@settings(deadline=None, max_examples=150)
@given(random_wans(), st.data())
def test_the_search_finds_what_looking_at_every_assignment_finds(wan: Wan, data: st.DataObject):
    problem = _drawn_problem(wan, data, most=5)

    solution = solve(problem, _first_choices(problem))

    assert solution.exact
    assert solution.shares.tolist() == pytest.approx(_brute_force(problem), rel=1e-6)
    assert sorted_shares(problem, solution.assignment[None])[0].tolist() == pytest.approx(solution.shares.tolist())


@settings(deadline=None, max_examples=150)
@given(random_wans(), st.data())
def test_where_many_links_carry_the_same_the_search_finds_it_too(wan: Wan, data: st.DataObject):
    drawn = _drawn_problem(wan, data, most=6)
    # Few different rates, with common multiples: many levels at once, and flows that stop together.
    rates = data.draw(st.lists(st.sampled_from([0.0, 6e6, 6e6, 12e6]), min_size=40, max_size=40))
    problem = Problem(drawn.uses, drawn.flow_of, numpy.array(rates[: len(drawn.capacities)]))

    solution = solve(problem, _first_choices(problem))

    assert solution.exact
    assert solution.shares.tolist() == pytest.approx(_brute_force(problem), rel=1e-6)


def test_twelve_flows_are_solved_as_looking_at_every_assignment_solves_them():
    # 12 flows with 2 paths each over 6 links drawn by hand: 4,096 assignments.
    links = {("a", m): rate for m, rate in zip("cdefgh", (7e6, 9e6, 11e6, 13e6, 17e6, 19e6), strict=True)}
    rates = links | {(m, "b"): 100e6 for m in "cdefgh"}
    pairs = ["cd", "ce", "cf", "de", "df", "dg", "ef", "eg", "eh", "fg", "fh", "gh"]
    problem = problem_of([[("a", m, "b") for m in pair] for pair in pairs], rates)

    solution = solve(problem, _first_choices(problem))

    assert solution.exact
    assert solution.shares.tolist() == pytest.approx(_brute_force(problem), rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(random_wans(), st.data())
def test_no_assignment_beats_the_bound_and_flows_on_one_path_each_reach_it(wan: Wan, data: st.DataObject):
    problem = _drawn_problem(wan, data, most=5)
    alone = problem_of([[("a", "b")], [("a", "b")]], {("a", "b"): 8.0})

    assert _brute_force(problem)[0] <= smallest_share_bound_bps(problem) * (1 + 1e-6)
    assert smallest_share_bound_bps(alone) == pytest.approx(4.0)


@settings(deadline=None, max_examples=60)
@given(random_wans(), st.data())
def test_with_whole_flows_the_linear_program_finds_the_largest_smallest_share(wan: Wan, data: st.DataObject):
    problem = _drawn_problem(wan, data, most=5)

    found = largest_smallest_share(problem)

    best = _brute_force(problem)[0]
    assert sorted_shares(problem, found.assignment[None])[0, 0] == pytest.approx(best, rel=1e-5)
    assert best * (1 - 1e-6) <= found.bound_bps <= best * (1 + 1e-3)


def test_on_many_flows_the_smallest_share_is_at_its_bound():
    # 40 flows from a to b over 5 paths of capacity 8, 16, 24, 32 and 40: at 3 each, 2 + 5 + 8 + 10 + 13 = 38 fit; at
    # 8 ÷ 3 = 2.67, 3 + 6 + 9 + 12 + 15 = 45 do, so 24 ÷ 9 = 2.67 or 40 ÷ 14 = 2.857: 2 + 5 + 8 + 11 + 14 = 40.
    middles = "cdefg"
    rates = {(("a", m), (m, "b"))[end]: 8.0 * (i + 1) for i, m in enumerate(middles) for end in (0, 1)}
    problem = problem_of([[("a", m, "b") for m in middles]] * 40, rates)

    solution = solve(problem, _first_choices(problem))

    assert solution.shares[0] == pytest.approx(40 / 14)
    assert solution.smallest_bound_bps == pytest.approx(40 / 14, rel=1e-3)


def test_a_flow_split_over_two_paths_is_what_the_bound_stands_for():
    # Whole, one of three flows shares; in parts, each gets two thirds of a path.
    routes = [("a", "c", "b"), ("a", "d", "b")]
    problem = problem_of([routes] * 3, dict.fromkeys([("a", "c"), ("c", "b"), ("a", "d"), ("d", "b")], 9.0))

    assert smallest_share_bound_bps(problem) == pytest.approx(6.0)
    assert solve(problem, _first_choices(problem)).shares.tolist() == [4.5, 4.5, 9.0]


def test_the_bound_is_nothing_where_a_flow_has_only_dead_paths():
    assert smallest_share_bound_bps(problem_of([[("a", "b")]], {("a", "b"): 0.0})) == 0.0


def test_without_the_work_for_a_proof_the_answer_is_not_called_exact_and_not_worse_than_the_start(monkeypatch):
    monkeypatch.setattr(fairsearch, "PROOF_WORK", 0)
    monkeypatch.setattr(fairsearch, "SEARCH_WORK", 0)
    routes = [("a", "c", "b"), ("a", "d", "b")]
    problem = problem_of([routes] * 3, dict.fromkeys([("a", "c"), ("c", "b"), ("a", "d"), ("d", "b")], 9.0))

    solution = solve(problem, numpy.array([0, 2, 4]))

    assert not solution.exact
    assert solution.shares[0] >= 3.0
    assert solution.smallest_bound_bps == pytest.approx(6.0)


def test_maxmin_moves_the_pair_that_can_make_way_although_it_is_placed_first():
    # a→b by c (100) or d (60); c→b only by cb (100) for any good. Greedy puts a→b by c first: 50 and 50.
    view = view_of(wan_of({"ac": 100e6, "bc": 100e6, "ad": 60e6, "bd": 60e6}), active=frozenset({AB, CB}))
    view = with_rates(view, {"ca": 10e6})

    greedy, together = Widest().decide(view, 0.0), MaxMin().decide(view, 0.0)

    assert (greedy[AB], greedy[CB]) == (("a", "c", "b"), ("c", "b"))
    assert (together[AB], together[CB]) == (("a", "d", "b"), ("c", "b"))


def test_maxmin_stays_unless_a_share_gains_more_than_the_margin():
    view = view_of(wan_of(DIAMOND), active=frozenset({AB}))

    assert MaxMin(0.1).decide(with_rates(view, {"ab": 91e6}), 0.0)[AB] == ("a", "b")
    assert MaxMin(0.1).decide(with_rates(view, {"ab": 90e6}), 0.0)[AB] == ("a", "c", "b")


def test_a_pair_whose_path_is_down_moves_and_the_others_only_for_the_margin():
    down = frozenset({AB, ("b", "a")})
    view = view_of(wan_of(DIAMOND), active=frozenset({AB, CB}), down=down)

    routing = MaxMin().decide(view, 0.0)

    # By c it would share cb with c→b: 50 each. By d both have 100.
    assert (routing[AB], routing[CB]) == (("a", "d", "b"), ("c", "b"))


def test_a_pair_with_every_path_down_stays_and_loads_nothing():
    down = frozenset(edge for a, b in ("ab", "ac", "ad") for edge in ((a, b), (b, a)))
    view = view_of(wan_of(DIAMOND), active=frozenset({AB, CB}), down=down)

    assert MaxMin().decide(view, 0.0)[AB] == ("a", "b")


@settings(deadline=None, max_examples=60)
@given(random_wans(), st.data())
def test_maxmin_is_as_fair_as_brute_force_up_to_the_margin_and_decides_the_same_again(wan: Wan, data: st.DataObject):
    view = view_of(wan, 3)
    active = frozenset(data.draw(st.sets(st.sampled_from(list(view.candidates)), max_size=5)))
    view = replace(view, active=active)

    first = MaxMin(0.0).decide(view, 0.0)

    assert MaxMin(0.0).decide(replace(view, routing=first), 1.0) == first
    assert all(first[pair] in routes for pair, routes in view.candidates.items())
    if active:
        pairs = [pair for pair in view.candidates if pair in active]
        chosen = problem_of([[first[pair]] for pair in pairs], view.capacities_bps)
        every = problem_of([view.candidates[pair] for pair in pairs], view.capacities_bps)
        shares = sorted_shares(chosen, numpy.arange(len(pairs))[None])[0]
        assert shares.tolist() == pytest.approx(_brute_force(every), rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(random_wans(), st.data())
def test_maxmin_leaves_no_pair_on_a_path_that_is_down_while_another_is_up(wan: Wan, data: st.DataObject):
    links = data.draw(st.sets(st.sampled_from(list(wan.edges))))
    down = frozenset(edge for a, b in links for edge in ((a, b), (b, a)))
    view = view_of(wan, 3, down=down)
    view = replace(view, active=frozenset(data.draw(st.sets(st.sampled_from(list(view.candidates)), max_size=6))))

    routing = MaxMin().decide(view, 0.0)

    for pair, routes in view.candidates.items():
        assert down.isdisjoint(edges_of(routing[pair])) or not any(view.is_up(route) for route in routes)


def test_what_can_be_kept_nowhere_is_compiled_all_the_same():
    # given a function of no file, beside which nothing can be kept
    namespace: dict = {}
    exec("def twice(number): return 2 * number", namespace)
    # then
    assert fairloops._compiled(namespace["twice"])(21) == 42
