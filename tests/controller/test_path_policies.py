from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views import DIAMOND, view_of, with_rates
from wans import random_wans, wan_of

from controller.policies import make_policy
from controller.policies.ecmp import Ecmp
from controller.policies.shortest import Shortest
from controller.policies.widest import Widest
from controller.settings import ControllerSettings
from controller.view import View, edges_of
from topologies import InputError, Wan


def _down(*links: str) -> frozenset:
    return frozenset(edge for a, b in links for edge in ((a, b), (b, a)))


def test_shortest_never_moves_not_even_off_a_link_that_is_down():
    view = with_rates(view_of(wan_of(DIAMOND), down=_down("ab")), {"ab": 1e6})

    assert Shortest().decide(view, 0.0) == view.routing


def test_widest_takes_the_path_whose_narrowest_edge_is_widest():
    # Directly 10; by c min(100, 40) = 40; by d min(30, 100) = 30.
    view = with_rates(view_of(wan_of(DIAMOND)), {"ab": 10e6, "cb": 40e6, "ad": 30e6})

    assert Widest().decide(view, 0.0)["a", "b"] == ("a", "c", "b")


@pytest.mark.parametrize(("direct_mbit", "expected"), [(91, "ab"), (90, "acb")])
def test_widest_stays_unless_it_gains_more_than_the_margin(direct_mbit, expected):
    # 100 against 91 is a gain of 9.9 %, against 90 of 11.1 %.
    view = with_rates(view_of(wan_of(DIAMOND)), {"ab": direct_mbit * 1e6})

    assert Widest(margin=0.1).decide(view, 0.0)["a", "b"] == tuple(expected)


def test_widest_leaves_a_path_that_is_down_for_any_that_is_up():
    view = with_rates(view_of(wan_of(DIAMOND), down=_down("ab", "ac")), {"db": 1e6})

    assert Widest().decide(view, 0.0)["a", "b"] == ("a", "d", "b")


def test_widest_stays_where_it_is_while_every_path_is_down():
    view = view_of(wan_of(DIAMOND), down=_down("ab", "ac", "ad"))

    assert Widest().decide(view, 0.0)["a", "b"] == ("a", "b")


def test_of_equally_wide_paths_widest_takes_the_one_with_fewer_hops_then_the_first_by_name():
    view = view_of(wan_of(DIAMOND), down=_down("ab"))

    assert Widest().decide(view, 0.0)["a", "b"] == ("a", "c", "b")


def test_active_pairs_count_as_load_for_those_placed_after_them():
    # a→b and c→b both send. a→b is placed first, on ab: a share of 100 there, and c→b stays on cb.
    # With ab at 10, a→b takes 80 by c; c→b then finds 80 ÷ 2 = 40 on cb, and min(100, 100) = 100 by a and d.
    active = frozenset({("a", "b"), ("c", "b")})
    view = with_rates(view_of(wan_of(DIAMOND), active=active), {"cb": 80e6, "ad": 70e6})

    unhurried = Widest().decide(view, 0.0)
    squeezed = Widest().decide(with_rates(view, {"ab": 10e6}), 0.0)

    assert (unhurried["a", "b"], unhurried["c", "b"]) == (("a", "b"), ("c", "b"))
    assert (squeezed["a", "b"], squeezed["c", "b"]) == (("a", "c", "b"), ("c", "a", "d", "b"))


def test_idle_pairs_see_no_load():
    # a→b sends and takes cb as well. If c→b saw that, it would leave a share of 50 there for 100 by a and d.
    view = with_rates(view_of(wan_of(DIAMOND), active=frozenset({("a", "b")})), {"ab": 10e6})

    routing = Widest().decide(view, 0.0)

    assert (routing["a", "b"], routing["c", "b"]) == (("a", "c", "b"), ("c", "b"))


@settings(deadline=None, max_examples=60)
@given(random_wans(), st.data())
def test_widest_decides_the_same_again_when_nothing_changes(wan: Wan, data: st.DataObject):
    view = view_of(wan, 3)
    active = frozenset(data.draw(st.sets(st.sampled_from(list(view.candidates)))))
    down = data.draw(st.sets(st.sampled_from([f"{a}{b}" for a, b in wan.edges])))
    routing = {pair: data.draw(st.sampled_from(routes)) for pair, routes in view.candidates.items()}
    view = replace(view, active=active, down=_down(*down), routing=routing)

    first = Widest(0.1).decide(view, 0.0)

    assert Widest(0.1).decide(replace(view, routing=first), 1.0) == first


@settings(deadline=None, max_examples=60)
@given(random_wans(), st.data())
def test_every_policy_answers_each_pair_with_a_candidate_and_widest_with_one_that_is_up(wan: Wan, data: st.DataObject):
    down = _down(*data.draw(st.sets(st.sampled_from([f"{a}{b}" for a, b in wan.edges]))))
    view = view_of(wan, 3, down=down)

    for name in ("shortest", "ecmp", "widest"):
        routing = make_policy(name, ControllerSettings()).decide(view, 0.0)
        assert routing.keys() == view.candidates.keys()
        assert all(routing[pair] in routes for pair, routes in view.candidates.items())
    for pair, routes in view.candidates.items():
        up = [route for route in routes if down.isdisjoint(edges_of(route))]
        assert not up or routing[pair] in up


def test_an_unknown_policy_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match="did you mean 'widest'"):
        make_policy("widset", ControllerSettings())


def _square_of_equal_paths(**changes) -> View:
    # From a to b by c, d, e or f: four paths of two hops each.
    return view_of(wan_of({f"{end}{middle}": 1e8 for end in "ab" for middle in "cdef"}), **changes)


def test_ecmp_spreads_pairs_over_equally_short_paths_and_looks_at_nothing_else():
    view = _square_of_equal_paths()

    routing = Ecmp().decide(view, 0.0)

    # 2 pairs between a and b with 4 paths each, 12 among c, d, e, f with 2 paths each; the others are neighbors.
    assert all(len(routing[pair]) == len(routes[0]) for pair, routes in view.candidates.items())
    assert len({routing[pair][1] for pair in routing if len(routing[pair]) == 3}) > 2
    starved = replace(view, capacities_bps=dict.fromkeys(view.capacities_bps, 1e3), active=frozenset(routing))
    assert Ecmp().decide(starved, 1.0) == routing


def test_ecmp_takes_no_longer_path_while_a_shortest_one_is_up():
    view = view_of(wan_of(DIAMOND))

    assert Ecmp().decide(view, 0.0)["a", "b"] == ("a", "b")
    assert Ecmp().decide(replace(view, down=_down("ab")), 0.0)["a", "b"] in (("a", "c", "b"), ("a", "d", "b"))
    assert Ecmp().decide(replace(view, down=_down("ab", "ac", "ad")), 0.0)["a", "b"] == ("a", "b")


def test_a_failure_moves_only_the_pairs_on_it_and_its_end_moves_them_back():
    view = _square_of_equal_paths()
    before = Ecmp().decide(view, 0.0)

    during = Ecmp().decide(replace(view, down=_down("ac"), routing=before), 1.0)
    after = Ecmp().decide(replace(view, routing=during), 2.0)

    for pair, route in before.items():
        assert (during[pair] != route) == (not _down("ac").isdisjoint(edges_of(route)))
    assert after == before
