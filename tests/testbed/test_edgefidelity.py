"""What single packets meet on idle links, against what the links are set to: verdicts by hand calculation."""

from wans import wan_of

from testbed.edgefidelity import EdgeProbe, judge_edges, summarized
from testbed.fidelity import Tolerance
from topologies import EdgeProperties

FORWARD, BACKWARD = ("a", "b"), ("b", "a")
SET = EdgeProperties(50e6, delay_s=0.025)


def verdict(forward, backward, tolerance=Tolerance()):  # noqa: B008 (frozen)
    return judge_edges({FORWARD: forward, BACKWARD: backward}, wan_of({"ab": 50e6}).links, tolerance)


def probe(edge, delay_s, lost=0, overtook=0, properties=SET, sent=500):
    return EdgeProbe(edge, properties, sent, lost, delay_s, overtook)


def test_a_round_trip_within_two_percent_is_trusted():
    # given 50 ms, of which 2 % are 1 ms
    found = verdict(probe(FORWARD, 0.0254), probe(BACKWARD, 0.0255))
    assert found.trustworthy
    assert round(found.figures["rtt_excess_s_max"], 6) == 0.0009


def test_a_round_trip_that_takes_too_long_is_named_with_both_figures():
    found = verdict(probe(FORWARD, 0.0265), probe(BACKWARD, 0.025))
    assert found.reasons == ("a ↔ b takes 51.5 ms for a round trip, set to 50 ms",)


def test_a_millisecond_is_granted_on_a_link_without_delay():
    none = EdgeProperties(50e6)
    assert verdict(probe(FORWARD, 0.0004, properties=none), probe(BACKWARD, 0.0005, properties=none)).trustworthy
    assert not verdict(probe(FORWARD, 0.0008, properties=none), probe(BACKWARD, 0.0005, properties=none)).trustworthy


def test_a_link_that_lets_nothing_through_is_named():
    found = verdict(probe(FORWARD, float("inf"), lost=500), probe(BACKWARD, 0.025))
    assert found.reasons[0] == "a ↔ b: no packet came through"


def test_loss_is_judged_in_each_direction_by_what_chance_allows():
    # given 1 % one way, none the other: of 500 packets 5 are expected; 20 would come about once in ten million times
    lossy = EdgeProperties(50e6, 0.025, loss=0.01)
    assert verdict(probe(FORWARD, 0.025, lost=9, properties=lossy), probe(BACKWARD, 0.025)).trustworthy
    found = verdict(probe(FORWARD, 0.025, lost=20, properties=lossy), probe(BACKWARD, 0.025))
    assert found.reasons == ("a → b loses 20 of 500 packets, set to 0.01 of them",)


def test_a_direction_that_should_lose_and_does_not_is_named():
    lossy = EdgeProperties(50e6, 0.025, loss=0.1)
    assert not verdict(probe(FORWARD, 0.025, properties=lossy), probe(BACKWARD, 0.025)).trustworthy


def test_overtaking_is_counted_by_packets_that_waited_for_no_delay():
    # given 25 ms, and two packets of four that took under 12.5 ms; number 3 came twice, number 4 never
    found = summarized(FORWARD, SET, 5, [[1, 0.0003], [0, 0.0251], [3, 0.0004], [3, 0.0004], [2, 0.0252]])
    assert (found.sent, found.lost, found.overtook) == (5, 1, 3)
    assert found.delay_s == 0.0004


def test_overtaking_without_its_being_set_is_named():
    found = verdict(probe(FORWARD, 0.025, overtook=50), probe(BACKWARD, 0.025))
    assert found.reasons == ("a → b lets overtake 50 of 500 packets, set to 0 of them",)
