"""What the dashboard remembers of a testbed, for hours: bounded, and the same for every page whenever it opens."""

import asyncio
import json

import pytest
from controlsocket import edge_state, snapshot

from testbed.live import protocol
from testbed.live.web.mailboxes import MAX_PAGES, MAX_WAITING, Mailboxes, TooManyPages
from testbed.live.web.mirror import KEPT_EVENTS, Mirror
from topologies.wanfile import load_wan

WAN = load_wan("mesh4")


def _state(told):
    """What a page that applies these events knows: rates and states, paths, ring, arm."""
    known = {"edges": {}, "routes": {}, "ring": None, "arm": None}
    for event in told:
        if event["kind"] == "edges":
            known["edges"] |= {row[0]: row[1:] for row in event["set"]}
        elif event["kind"] == "routes":
            known["routes"] |= {tuple(move[:2]): move[2] for move in event["moves"]}
        elif event["kind"] == "ring":
            known["ring"] = event["order"]
        elif event["kind"] == "settings":
            known["arm"] = event["arm"]
    return known


def _hours_of_events(count):
    paths = [("tokyo", "oregon"), ("tokyo", "virginia", "oregon")]
    for seq in range(1, count + 1):
        at, kind = 100.0 + seq, seq % 4
        if kind == 0:
            state = edge_state(WAN, list(WAN.edges)[seq % 12], rate_bps=1e6 * (seq % 50 + 1), up=seq % 8 != 0)
            yield protocol.LinkEvent(seq, at, "", (state,))
        elif kind == 1:
            before, after = paths[seq % 8 == 1], paths[seq % 8 != 1]
            move = protocol.Move("tokyo", "oregon", before, after)
            yield protocol.ReconfigurationEvent(seq, at, "moved", seq, "period", at, at, at, at, 0.0, (move,))
        elif kind == 2:
            control = protocol.Control(("joint", "static")[seq % 8 == 2], "widest", 0.5, 4)
            yield protocol.ArmEvent(seq, at, "", control)
        else:
            done = protocol.Collective(seq, "joint", at - 1, at, 1.0, 0.5, 0.0, WAN.dcs, 1, True)
            yield protocol.CollectiveEvent(seq, at, "", done)


def test_a_page_that_opens_after_hours_knows_what_one_knows_that_was_there_all_the_time():
    mirror = Mirror(snapshot(WAN))
    seen = mirror.beginning()
    for event in _hours_of_events(6000):
        seen += mirror.take(event)

    assert _state(mirror.beginning()) == _state(seen)
    assert mirror.version == 6000


def test_it_remembers_no_more_after_ten_times_as_long():
    sizes = []
    mirror = Mirror(snapshot(WAN))
    for number, event in enumerate(_hours_of_events(30_000), start=1):
        mirror.take(event)
        if number in (3_000, 30_000):
            sizes.append(len(json.dumps(mirror.beginning())))

    assert sizes[1] < 1.1 * sizes[0]
    assert len(mirror.beginning()) <= KEPT_EVENTS + 6


def test_loads_are_told_at_most_twice_a_second():
    mirror = Mirror(snapshot(WAN))
    rates = tuple(protocol.EdgeRate(a, b, 5e6, 0, 0) for a, b in WAN.edges)
    told = []
    for seq in range(1, 41):
        at = 100 + seq * 0.25
        if mirror.wants("rates", at):
            told += mirror.take(protocol.RatesEvent(seq, at, "", rates))

    assert len(told) == 20
    assert told[0]["load_bps"] == [5_000_000] * 12


def test_routes_that_nobody_moved_are_told_once():
    mirror = Mirror(snapshot(WAN))
    other = tuple(
        protocol.Route(a, b, ("tokyo", "virginia", "oregon") if (a, b) == ("tokyo", "oregon") else (a, b), True)
        for a in WAN.dcs
        for b in WAN.dcs
        if a != b
    )

    (told,) = mirror.take(protocol.RoutesEvent(1, 100.0, "", other))

    assert told["moves"] == [[2, 1, [2, 3, 1]]]
    assert mirror.take(protocol.RoutesEvent(2, 101.0, "", other)) == []


def test_a_page_that_does_not_read_is_cut_off_and_costs_no_more_memory():
    async def scenario():
        pages = Mailboxes()
        slow = pages.open({"version": 0})
        for version in range(10 * MAX_WAITING):
            pages.put(version, [{"kind": "note"}])
        return [message async for message in slow.messages()], len(slow._waiting)

    messages, waiting = asyncio.run(scenario())

    assert len(messages) == 1, "its beginning, and then the end: its browser comes back for a new beginning"
    assert waiting <= MAX_WAITING


def test_pages_are_not_without_number():
    pages = Mailboxes()
    opened = [pages.open({}) for _ in range(MAX_PAGES)]

    with pytest.raises(TooManyPages):
        pages.open({})
    pages.close(opened[0])
    pages.open({})
