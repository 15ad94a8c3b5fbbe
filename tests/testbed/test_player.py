"""A timeline is played in order, on time, and written down."""

import threading
import time

import pytest

from testbed.dynamics.player import Player
from testbed.dynamics.timeline import Instant
from topologies.model import EdgeProperties, Link, Site, Wan

SLOW = EdgeProperties(10e6, delay_s=0.02)
WAN = Wan("two", (Site("a"), Site("b")), (Link("a", "b", SLOW, SLOW),))
AB, BA = ("a", "b"), ("b", "a")


class Recorder:
    """A network that only remembers what was asked of it."""

    def __init__(self, fails_at=None):
        self.calls = []
        self.called = threading.Condition()
        self._fails_at = fails_at

    def _remember(self, *call):
        if call[0] == self._fails_at:
            raise OSError("the kernel said no")
        with self.called:
            self.calls.append(call)
            self.called.notify_all()

    def shape_many(self, changes):
        self._remember("shape", dict(changes))

    def fail(self, link):
        self._remember("fail", link)

    def blackhole(self, link):
        self._remember("blackhole", link)

    def heal(self, link):
        self._remember("heal", link)

    def crash(self, dc):
        self._remember("crash", dc)

    def restart(self, dc):
        self._remember("restart", dc)

    def wait_for(self, count):
        with self.called:
            assert self.called.wait_for(lambda: len(self.calls) >= count, timeout=10)


@pytest.fixture
def records():
    return []


def player_of(instants, network, records, failed=None):
    return Player(
        instants,
        WAN,
        network,
        record=lambda kind, record: records.append((kind, record)),
        crash=network.crash,
        failed=failed or (lambda error: None),
        restart=network.restart,
    )


def test_what_holds_at_second_0_is_set_before_the_start_and_once(records):
    network = Recorder()
    player = player_of([Instant(0.0, {AB: 5e6}, {}), Instant(0.01, {AB: 6e6}, {})], network, records)

    player.prepare()
    before = list(network.calls)
    player.start(time.monotonic())
    network.wait_for(2)
    player.stop()

    assert before == [("shape", {AB: EdgeProperties(5e6, delay_s=0.02)})]
    assert network.calls[1:] == [("shape", {AB: EdgeProperties(6e6, delay_s=0.02)})]


def test_nothing_is_set_before_its_time_and_everything_in_order(records):
    network = Recorder()
    start_at = time.monotonic() + 0.05
    player = player_of([Instant(0.1, {AB: 5e6, BA: 7e6}, {}), Instant(0.2, {}, {"a-b": "down"})], network, records)

    player.start(start_at)
    network.wait_for(2)
    player.stop()

    assert [call[0] for call in network.calls] == ["shape", "fail"]
    assert [kind for kind, _ in records] == ["changes", "faults"]
    for (_, record), planned_s in zip(records, (0.1, 0.2), strict=True):
        assert record["planned_s"] == planned_s
        assert start_at + planned_s <= record["begun_at"] <= record["applied_at"]
    assert records[0][1]["rates"] == [["a", "b", 5e6], ["b", "a", 7e6]]
    assert (records[1][1]["link"], records[1][1]["state"]) == ("a-b", "down")


def test_a_link_goes_from_one_fault_to_another_over_health(records):
    states = ("down", "blackhole", "up")
    network = Recorder()
    player = player_of([Instant(0.001 * i, {}, {"a-b": s}) for i, s in enumerate(states, 1)], network, records)

    player.start(time.monotonic())
    network.wait_for(4)
    player.stop()

    assert [call[0] for call in network.calls] == ["fail", "heal", "blackhole", "heal"]
    assert [record["state"] for _, record in records] == ["down", "blackhole", "up"]


def test_a_crash_and_its_end_are_passed_on_and_recorded(records):
    network = Recorder()
    instants = [Instant(0.001, {}, {}, ("b",)), Instant(0.002, {}, {}, (), ("b",))]
    player = player_of(instants, network, records)

    player.start(time.monotonic())
    network.wait_for(2)
    player.stop()

    assert network.calls == [("crash", "b"), ("restart", "b")]
    assert [(kind, r["dc"], r["state"]) for kind, r in records] == [
        ("faults", "b", "crash"),
        ("faults", "b", "restart"),
    ]


def test_stopping_ends_the_wait_for_what_is_far_away(records):
    network = Recorder()
    player = player_of([Instant(3600.0, {AB: 5e6}, {})], network, records)

    player.start(time.monotonic())
    player.stop()

    assert network.calls == []


def test_what_cannot_be_set_is_told_at_once_and_raised_at_the_end(records):
    network, told = Recorder(fails_at="fail"), threading.Event()
    instants = [Instant(0.001, {}, {"a-b": "down"}), Instant(0.002, {AB: 5e6}, {})]
    player = player_of(instants, network, records, failed=lambda error: told.set())

    player.start(time.monotonic())
    assert told.wait(timeout=10)

    with pytest.raises(OSError, match="the kernel said no"):
        player.stop()
    assert network.calls == []
    assert records == []
    player.stop()
