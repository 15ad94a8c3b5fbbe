"""What all ranks run next, and whether that is worth a change."""

from __future__ import annotations

import pytest

from benchmarks.randomwans import sparse_network
from topologies.errors import InputError
from workers.decision import Decision, Ring, decide
from workers.network import Network, bandwidths, ring_bps
from workers.policies import POLICIES, RingView, policy
from workers.schedules.choice import planned

SIZE, CHUNK = 8 * 2**20, 2**17
LISTED = tuple(range(6))


def view(network: Network | None, **fields: object) -> RingView:
    matrix = bandwidths(network, 6) if network else ((1e6,) * 6,) * 6
    given = {"current": LISTED, "listed": LISTED, "network": network, "size_bytes": SIZE, "margin": 0.1}
    return RingView(matrix, **{**given, **fields})  # type: ignore[arg-type]


def test_a_ring_changes_with_its_policy_and_says_what_it_gains():
    network = sparse_network(6, 1)
    order = POLICIES["shared"](view(network))
    decision = decide(Ring(4, LISTED), order, view(network), "ring", CHUNK)
    assert decision.ring == Ring(5, order)
    assert decision.predicted_gain == pytest.approx(ring_bps(network, order) / ring_bps(network, LISTED) - 1)
    # and stays without a change of its order
    assert stays(decide(Ring(4, LISTED), LISTED, view(network), "ring", CHUNK), Ring(4, LISTED))


def stays(decision: Decision, ring: Ring) -> bool:
    return decision.ring == ring and decision.predicted_gain == 0 and decision.rate_bps == decision.rate_before_bps


def test_a_decision_says_at_which_rate_shards_should_reach_everybody():
    """Four ranks, a link of 90 Mbit/s between any two, but one of 30; each edge of a ring carries three shards."""
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    links = {(a, b): ((str(a), str(b)),) for a, b in pairs}
    network = Network({edge: 90e6 for (edge,) in links.values()} | {("0", "1"): 30e6}, links)
    seen = view(network, current=(0, 1, 2, 3), listed=(0, 1, 2, 3))
    decision = decide(Ring(0, (0, 1, 2, 3)), (0, 2, 1, 3), seen, "ring", CHUNK)
    assert decision.rate_before_bps == pytest.approx(10e6)
    assert decision.rate_bps == pytest.approx(30e6)
    assert decision.predicted_gain == pytest.approx(2)


@pytest.mark.parametrize("schedule", ["multiring", "trees", "auto"])
def test_a_planned_schedule_replaces_the_ring_and_then_stays(schedule: str):
    network = sparse_network(6, 1)
    first = decide(Ring(0, LISTED), LISTED, view(network), schedule, CHUNK)
    assert first.ring.epoch == 1
    assert first.ring.forest == planned(schedule, network, LISTED, SIZE, CHUNK).forest
    assert first.predicted_gain is not None
    assert first.predicted_gain > 0.5
    # the same network again: nothing to gain
    again = decide(first.ring, LISTED, view(network), schedule, CHUNK)
    assert stays(again, first.ring)


def test_a_planned_schedule_has_to_pay_for_its_change():
    network = sparse_network(6, 1)
    dear = view(network, change_cost_s=1e4, collectives=10)
    assert decide(Ring(0, LISTED), LISTED, dear, "trees", CHUNK).ring == Ring(0, LISTED)
    assert decide(Ring(0, LISTED), LISTED, view(network, change_cost_s=1e-3), "trees", CHUNK).ring.epoch == 1


def test_a_forest_over_a_link_that_is_gone_is_left_at_once():
    network = sparse_network(6, 1)
    first = decide(Ring(0, LISTED), LISTED, view(network), "trees", CHUNK).ring
    assert first.forest is not None
    used = network.routes[first.forest[0].edges[0]][0]
    broken = Network({**network.capacities_bps, used: 1.0}, network.routes)
    after = decide(first, LISTED, view(broken, margin=5.0), "trees", CHUNK)
    assert after.ring.epoch == 2


def test_pairs_alone_are_taken_for_links_of_their_own():
    decision = decide(Ring(0, LISTED), LISTED, view(None), "trees", CHUNK)
    assert decision.ring.forest is not None


def test_a_network_in_pieces_changes_nothing():
    decision = decide(Ring(0, LISTED), LISTED, view(Network({}, {})), "trees", CHUNK)
    assert decision == Decision(Ring(0, LISTED), None, 0.0, 0.0)


def test_a_class_of_ones_own_keeps_what_it_remembers():
    own = policy("damaged_schedules:Swapping")
    assert own(view(None)) == (1, 0, 2, 3, 4, 5)
    assert own.__self__.times == 1
    with pytest.raises(InputError, match="no method decide"):
        policy("builtins:list")
