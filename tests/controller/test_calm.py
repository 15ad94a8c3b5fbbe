from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views import DIAMOND, view_of, with_rates
from wans import wan_of

from controller.calm import Calm, CalmSettings, is_dead
from controller.policies.maxmin import MaxMin
from controller.policies.widest import Widest
from controller.view import Pair, Policy, Route, View
from topologies import InputError

AB, CB = ("a", "b"), ("c", "b")
DIRECT, BY_C, BY_D = ("a", "b"), ("a", "c", "b"), ("a", "d", "b")
AB_DOWN = frozenset({("a", "b"), ("b", "a")})


class Pairs:
    """Pairs under a policy and calm, fed with views; counts the moves of each pair."""

    def __init__(self, policy: Policy, calm: CalmSettings, view: View) -> None:
        self.policy, self.view = policy, view
        self.calm = Calm(calm, capacities_bps=view.capacities_bps)
        self.moves: dict[Pair, int] = dict.fromkeys(view.routing, 0)

    def see(self, now: float, at_once: bool = False, **changes) -> Route:
        """Decide on a changed view; where a→b is then."""
        self.view = replace(self.view, **changes)
        wanted = self.policy.decide(self.view, now)
        self.calm, routing = self.calm.after(self.view, wanted, now, at_once)
        for pair, route in routing.items():
            self.moves[pair] += route != self.view.routing[pair]
        self.view = replace(self.view, routing=routing)
        return routing[AB]


def _pairs(calm: CalmSettings | None = None, policy: Policy | None = None, **changes) -> Pairs:
    return Pairs(policy or Widest(), calm or CalmSettings(), view_of(wan_of(DIAMOND), **changes))


def _rates(rates_bps: dict[str, float]) -> dict:
    return with_rates(view_of(wan_of(DIAMOND)), rates_bps).capacities_bps


def test_a_link_that_goes_down_is_left_at_once_and_met_again_only_after_the_dwell():
    # Directly 100, by c 80, by d 60.
    pairs = _pairs(CalmSettings(dwell_s=1.0), capacities_bps=_rates({"cb": 80e6, "db": 60e6}))

    assert pairs.see(0.0, down=AB_DOWN) == BY_C
    assert pairs.see(5.0, down=frozenset()) == BY_C
    assert pairs.see(5.9) == BY_C
    assert pairs.see(6.0) == DIRECT


def test_good_news_is_acted_on_after_the_dwell_and_not_before():
    pairs = _pairs(CalmSettings(dwell_s=1.0), capacities_bps=_rates({"ab": 50e6, "cb": 50e6, "db": 50e6}))
    better = _rates({"ab": 50e6, "cb": 90e6, "db": 50e6})

    assert pairs.see(10.0, capacities_bps=better) == DIRECT
    assert pairs.see(10.9) == DIRECT
    assert pairs.see(11.0) == BY_C


def test_good_news_that_does_not_last_starts_the_dwell_anew():
    pairs = _pairs(CalmSettings(dwell_s=1.0), capacities_bps=_rates({"ab": 50e6, "cb": 50e6, "db": 50e6}))
    worse, better = pairs.view.capacities_bps, _rates({"ab": 50e6, "cb": 90e6, "db": 50e6})

    pairs.see(10.0, capacities_bps=better)
    pairs.see(10.5, capacities_bps=worse)
    pairs.see(10.6, capacities_bps=better)

    assert pairs.see(11.5) == DIRECT
    assert pairs.see(11.6) == BY_C


def test_a_loss_of_capacity_on_the_path_is_acted_on_at_once():
    pairs = _pairs(CalmSettings(dwell_s=100.0))

    assert pairs.see(0.0, capacities_bps=_rates({"ab": 50e6})) == BY_C


def test_a_loss_within_five_percent_does_not_turn_good_news_into_bad():
    # ab from 91 to 88 (3 %): now c, at 100, gains 14 %.
    pairs = _pairs(CalmSettings(dwell_s=1.0), capacities_bps=_rates({"ab": 91e6}))

    assert pairs.see(0.0, capacities_bps=_rates({"ab": 88e6})) == DIRECT
    assert pairs.see(1.0) == BY_C


def test_a_pair_that_sends_makes_room_at_once_for_one_that_has_to_move():
    # cb carries c→b. With ab at 10, a→b takes cb (100); of the 50 left each there, c→b can have 100 by a and d.
    active = frozenset({AB, CB})
    pairs = _pairs(CalmSettings(dwell_s=100.0), active=active, capacities_bps=_rates({"cb": 80e6, "ad": 70e6}))

    assert pairs.see(0.0, capacities_bps=_rates({"ab": 10e6, "cb": 80e6, "ad": 70e6})) == BY_C
    assert pairs.view.routing[CB] == ("c", "a", "d", "b")


def test_what_is_announced_is_acted_on_at_once():
    pairs = _pairs(CalmSettings(dwell_s=100.0), capacities_bps=_rates({"ab": 50e6}))

    assert pairs.see(0.0) == DIRECT
    assert pairs.see(0.1, at_once=True) == BY_C


def test_a_pair_without_tokens_waits_for_one_but_leaves_a_dead_path_all_the_same():
    pairs = _pairs(CalmSettings(dwell_s=0.0, moves=1, move_every_s=10.0))

    assert pairs.see(0.0, capacities_bps=_rates({"ab": 50e6})) == BY_C
    assert pairs.see(1.0, capacities_bps=_rates({"ab": 50e6, "cb": 40e6})) == BY_C
    assert pairs.see(10.0) == BY_D
    assert pairs.see(11.0, down=frozenset({("a", "d"), ("d", "a")})) == DIRECT


def test_a_path_whose_capacity_is_nothing_is_dead():
    view = with_rates(view_of(wan_of(DIAMOND)), {"cb": 0.0})

    assert [is_dead(view, route) for route in (DIRECT, BY_C, BY_D)] == [False, True, False]
    assert is_dead(replace(view, down=AB_DOWN), DIRECT)


@pytest.mark.parametrize("policy", [Widest(), MaxMin()])
@pytest.mark.parametrize("how", ["down", "capacity"])
def test_a_link_that_flaps_at_5_hz_for_a_minute_moves_a_pair_once(policy: Policy, how: str):
    pairs = _pairs(policy=policy, active=frozenset({AB, ("b", "a")}))
    good = pairs.view.capacities_bps
    bad = {"down": AB_DOWN} if how == "down" else {"capacities_bps": _rates({"ab": 1e6, "ba": 1e6})}

    for flap in range(300):
        pairs.see(flap * 0.2, **bad)
        pairs.see(flap * 0.2 + 0.1, down=frozenset(), capacities_bps=good)

    assert max(pairs.moves.values()) == 1
    assert pairs.moves[AB] == pairs.moves["b", "a"] == 1


@pytest.mark.parametrize("how", ["down", "capacity"])
def test_without_a_dwell_the_budget_bounds_the_moves_of_a_flapping_link(how: str):
    # Direct 100, by c and d 50: a→b wants back each time. B = 10, R = 0.5 s, t = 60 s.
    pairs = _pairs(
        CalmSettings(dwell_s=0.0, moves=10, move_every_s=0.5), capacities_bps=_rates({"cb": 50e6, "db": 50e6})
    )
    good = pairs.view.capacities_bps
    bad = {"down": AB_DOWN} if how == "down" else {"capacities_bps": {**good, AB: 1e6}}

    for flap in range(300):
        pairs.see(flap * 0.2, **bad)
        pairs.see(flap * 0.2 + 0.1, down=frozenset(), capacities_bps=good)

    budget = 10 + 60 / 0.5
    assert 20 < pairs.moves[AB] <= (2 * budget + 1 if how == "down" else budget)


class Wanting:
    """A policy that wants for a→b whatever the test says, and leaves the others."""

    def __init__(self) -> None:
        self.route = DIRECT

    def decide(self, view: View, now: float) -> dict[Pair, Route]:
        return {**view.routing, AB: self.route}


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([DIRECT, BY_C, BY_D]), st.booleans(), st.booleans()), max_size=80
    ),
    st.integers(1, 5),
    st.floats(0.1, 2),
    st.floats(0, 1),
)
def test_the_bound_holds_against_any_policy_while_one_link_flaps(
    steps, moves: int, move_every_s: float, dwell_s: float
):
    policy = Wanting()
    pairs = _pairs(CalmSettings(dwell_s, moves, move_every_s), policy)
    now = 0.0
    for wait_s, route, down, at_once in steps:
        now += wait_s
        policy.route = route
        pairs.see(now, at_once, down=AB_DOWN if down else frozenset())

    assert pairs.moves[AB] <= 2 * (moves + now / move_every_s) + 1 + 1e-6


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from([DIRECT, BY_C, BY_D]), st.integers(1, 9)), max_size=80),
    st.integers(1, 5),
    st.floats(0.1, 2),
)
def test_no_policy_and_no_capacities_move_a_pair_off_live_paths_beyond_its_budget(
    steps, moves: int, move_every_s: float
):
    policy = Wanting()
    pairs = _pairs(CalmSettings(0.0, moves, move_every_s), policy)
    now = 0.0
    for wait_s, route, tenths in steps:
        now += wait_s
        policy.route = route
        pairs.see(now, capacities_bps=_rates({"ab": tenths * 1e7}))

    assert pairs.moves[AB] <= moves + now / move_every_s + 1e-6


@pytest.mark.parametrize("wrong", [{"dwell_s": -1.0}, {"moves": 0}, {"move_every_s": 0.0}, {"dwell_s": float("nan")}])
def test_settings_out_of_range_are_refused(wrong: dict):
    with pytest.raises(InputError, match=next(iter(wrong))):
        CalmSettings(**wrong)


def test_a_wish_is_due_when_its_dwell_is_over_and_a_token_is_there():
    settings = CalmSettings(dwell_s=1.0, moves=1, move_every_s=10.0)
    pairs = _pairs(settings, capacities_bps=_rates({"ab": 50e6}))
    assert pairs.calm.due_at is None

    pairs.see(5.0)
    assert pairs.calm.due_at == 6.0
    assert pairs.see(6.0) == BY_C
    assert pairs.calm.due_at is None

    # Bad news now, but the only token was spent at 6.0.
    pairs.see(7.0, capacities_bps=_rates({"ab": 50e6, "cb": 20e6}))
    assert pairs.calm.due_at == 16.0
    assert pairs.see(16.0) == BY_D
