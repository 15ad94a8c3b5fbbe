"""Pairs change their path on a real network, under traffic: why, whereto, and what it costs the packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from wans import wan_of

from controller.client import EventStream
from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.measure_flows import count_losses, result_of, start_flow
from topologies import Edge

pytestmark = pytest.mark.emulated

WAN = wan_of({"ab": 50e6, "ac": 50e6, "bc": 50e6, "ad": 50e6, "bd": 50e6})
EVENT_WITHIN_S = 20.0
RATE_BPS = 10e6
SENT_BYTES = 1_250_000
"""What a flow of `RATE_BPS` sends in one second."""


def _next(stream: EventStream, **fields: Any) -> dict[str, Any]:
    """The next event with these fields."""
    return next(e for e in stream.events(EVENT_WITHIN_S) if all(e.get(k) == v for k, v in fields.items()))


@pytest.fixture(scope="module")
def module_bed() -> Iterator[Testbed]:
    # Without BFD: a link that a test has healed may pass for silent in the next. Silent links are test_repair.py's.
    with Testbed(WAN, controller=ControllerSettings(period_s=0.2), bfd=None) as bed:
        yield bed


@pytest.fixture
def bed(module_bed: Testbed) -> Testbed:
    """As new: healed (and the controller knows), first rates, shortest paths, nobody seen to send."""
    with module_bed.controller.subscribe() as stream:
        module_bed.heal()
        while module_bed.controller.view().down:
            _next(stream, event="link", up=True)
    module_bed.reset()
    return module_bed


@pytest.fixture
def events(bed: Testbed) -> Iterator[EventStream]:
    with bed.controller.subscribe() as stream:
        yield stream


def _carried(bed: Testbed) -> dict[Edge, int]:
    return {status.edge: status.sent_bytes for status in bed.links()}


def _drops(bed: Testbed) -> int:
    return sum(status.queue_drops for status in bed.links()) + sum(bed.stray_drops().values())


class Flow:
    """A paced TCP flow of a pair, ready to send for some seconds."""

    def __init__(self, bed: Testbed, source: str, target: str, seconds: float) -> None:
        self._receiver, self._sender = start_flow(bed, (source, target), "tcp", RATE_BPS, seconds)

    def finish(self) -> int:
        """Bytes received, once all are."""
        result_of(self._sender)
        return result_of(self._receiver)["received"]


def test_a_capacity_drop_moves_a_running_flow_and_is_recorded(bed: Testbed, events: EventStream):
    flow = Flow(bed, "a", "b", seconds=1.5)

    bed.shape("a-b", rate_bps=1e6, direction=("a", "b"))
    event = _next(events, event="reconfiguration", cause="capacity")
    before = _carried(bed)
    received = flow.finish()
    after = _carried(bed)

    assert {"pair": ["a", "b"], "from": ["a", "b"], "to": ["a", "c", "b"]} in event["moves"]
    assert event["happened_at"] <= event["seen_at"] <= event["decided_at"] <= event["installed_at"]
    assert received >= SENT_BYTES
    assert after["a", "c"] - before["a", "c"] > SENT_BYTES / 2
    assert after["a", "b"] - before["a", "b"] < SENT_BYTES / 2


def test_the_static_arm_moves_neither_on_a_drop_nor_on_a_link_down(bed: Testbed, events: EventStream):
    bed.controller.reset("shortest")
    routes = bed.controller.view().routes

    bed.shape("a-b", rate_bps=1e6)
    bed.fail("a-b")
    seen = [next(events.events(EVENT_WITHIN_S)) for _ in range(2)]

    assert [event["event"] for event in seen] == ["link", "link"]
    view = bed.controller.view()
    assert view.routes == routes
    assert view.down == {("a", "b"), ("b", "a")}


def test_a_link_that_goes_down_is_left_by_every_pair_at_once(bed: Testbed, events: EventStream):
    bed.fail("a-b")
    event = _next(events, event="reconfiguration", cause="port_status")

    assert {tuple(move["pair"]) for move in event["moves"]} >= {("a", "b"), ("b", "a")}
    assert Flow(bed, "a", "b", seconds=0.2).finish() > 0
    bed.heal("a-b")
    assert _next(events, event="link", up=True)["edge"] in (["a", "b"], ["b", "a"])


def test_many_rates_that_change_at_one_instant_are_one_reconfiguration(bed: Testbed, events: EventStream):
    rates = {edge: bed.wan.edges[edge] for edge in (("a", "b"), ("b", "a"), ("c", "b"), ("b", "c"))}
    low = {edge: type(properties)(1e6) for edge, properties in rates.items()}

    bed.shape_many(low)

    event = _next(events, event="reconfiguration")
    assert event["cause"] == "capacity"
    assert {tuple(move["pair"]) for move in event["moves"]} >= {("a", "b"), ("b", "a"), ("c", "b"), ("b", "c")}


def test_pairs_that_are_seen_to_send_make_way_for_each_other(bed: Testbed, events: EventStream):
    # With ab narrow, idle a→b goes by c. Once a→b and c→b both send, cb is two pairs' and c→b is better off by a and d.
    bed.shape("a-b", rate_bps=1e6)
    _next(events, event="reconfiguration", cause="capacity")

    flows = [Flow(bed, "a", "b", seconds=2.0), Flow(bed, "c", "b", seconds=2.0)]
    event = _next(events, event="reconfiguration", cause="period")
    active = bed.controller.view().active
    for flow in flows:
        flow.finish()

    assert {"pair": ["c", "b"], "from": ["c", "b"], "to": ["c", "a", "d", "b"]} in event["moves"]
    assert active == {("a", "b"), ("c", "b")}


def test_a_pinned_pair_takes_a_path_that_no_tunnel_took_before_and_comes_back(bed: Testbed):
    route = ("c", "a", "d", "b")
    bed.controller.reset("shortest")
    assert bed.controller.pin(("c", "b"), route).installed_at is not None
    before = _carried(bed)

    received = Flow(bed, "c", "b", seconds=0.2).finish()

    after = _carried(bed)
    assert all(after[edge] - before[edge] >= received for edge in (("c", "a"), ("a", "d"), ("d", "b")))
    assert bed.controller.view().pinned == {("c", "b")}
    assert bed.controller.unpin(("c", "b")).moves[0].after == ("c", "b")
    assert bed.controller.unpin(("c", "b")) is None


def test_reset_brings_pairs_back_to_their_shortest_paths(bed: Testbed):
    bed.controller.pin(("a", "b"), ("a", "d", "b"))

    record = bed.controller.reset("widest", period_s=0.2)

    assert [(move.pair, move.after) for move in record.moves] == [(("a", "b"), ("a", "b"))]
    assert record.cause == "reset"
    assert bed.controller.view().pinned == frozenset()


def test_moving_a_path_loses_no_packet_and_repeats_none(bed: Testbed):
    bed.controller.reset("shortest")
    routes = [("a", "b"), ("a", "c", "b"), ("a", "d", "b")]

    flow = count_losses(bed, ("a", "b"), routes, moves=30)

    assert (flow.lost, flow.repeated) == (0, 0)
    assert flow.sent == 2000


def test_moving_the_path_of_a_tcp_flow_drops_nothing_on_the_way(bed: Testbed):
    bed.controller.reset("shortest")
    drops = _drops(bed)
    flow = Flow(bed, "a", "b", seconds=1.0)

    for number in range(20):
        bed.controller.pin(("a", "b"), ("a", "cd"[number % 2], "b"))
    received = flow.finish()

    assert received == SENT_BYTES
    assert _drops(bed) == drops
