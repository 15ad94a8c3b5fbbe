"""The capacity feed: in order, when it is due, and never after it was told to forget."""

import threading
import time

import pytest

from testbed.feed import Feed, FeedSettings
from topologies import InputError

EDGE = ("a", "b")
BOUND_S = 20


class Receiver:
    """Keeps what was delivered and when, and lets a test wait for it."""

    def __init__(self):
        self.got = []
        self._changed = threading.Condition()

    def __call__(self, rates_bps, happened_at):
        with self._changed:
            self.got.append((rates_bps, happened_at, time.monotonic()))
            self._changed.notify_all()

    def wait_for(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.got) >= count, BOUND_S)


@pytest.fixture
def receiver():
    return Receiver()


def feed_of(receiver, delay_s=0.0):
    return Feed(FeedSettings(delay_s), receiver)


def test_changes_arrive_in_the_order_in_which_they_happened_with_their_times(receiver):
    feed = feed_of(receiver)
    now = time.monotonic()
    for number in range(5):
        feed.tell({EDGE: float(number)}, now + number / 1000)
    receiver.wait_for(5)
    feed.close()
    assert [(rates[EDGE], at) for rates, at, _ in receiver.got] == [(float(n), now + n / 1000) for n in range(5)]


def test_nothing_arrives_before_its_delay_is_over(receiver):
    feed = feed_of(receiver, delay_s=0.1)
    happened_at = time.monotonic()
    feed.tell({EDGE: 1e6}, happened_at)
    receiver.wait_for(1)
    feed.close()
    assert receiver.got[0][2] >= happened_at + 0.1


def test_what_is_under_way_is_forgotten_when_told_so(receiver):
    feed = feed_of(receiver, delay_s=0.05)
    feed.tell({EDGE: 1e6}, time.monotonic())
    feed.forget()
    feed.tell({EDGE: 2e6}, time.monotonic())
    receiver.wait_for(1)
    feed.close()
    assert [rates[EDGE] for rates, _, _ in receiver.got] == [2e6]


def test_a_feed_that_is_closed_does_not_wait_for_what_is_not_due(receiver):
    feed = feed_of(receiver, delay_s=1000)
    feed.tell({EDGE: 1e6}, time.monotonic())
    feed.close()
    assert receiver.got == []


def test_what_ended_a_feed_early_is_kept():
    failed = threading.Event()

    def refuse(rates_bps, happened_at):
        failed.set()
        raise ValueError("no")

    feed = Feed(FeedSettings(), refuse)
    feed.tell({EDGE: 1e6}, time.monotonic())
    assert failed.wait(BOUND_S)
    feed.close()
    assert str(feed.failure) == "no"


@pytest.mark.parametrize("delay_s", [-0.001, float("nan"), float("inf")])
def test_a_delay_is_a_length_of_time(delay_s):
    with pytest.raises(InputError, match="delay_s"):
        FeedSettings(delay_s)


def test_every_result_says_where_capacities_came_from():
    assert FeedSettings(0.05).label == "capacity: feed, delay 0.05 s"
