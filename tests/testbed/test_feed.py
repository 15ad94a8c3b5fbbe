from __future__ import annotations

import queue
import random
import statistics
import time

import pytest

from testbed.feed import Feed, FeedSettings, report_bps
from topologies import InputError

EDGE, OTHER = ("a", "b"), ("b", "a")


def _reports(settings: FeedSettings, rate_bps: float, count: int = 4000) -> list[float | None]:
    stream = random.Random(1)
    return [report_bps(settings, rate_bps, stream) for _ in range(count)]


def _heard(settings: FeedSettings, seed: int, told: list[dict], again: bool = False) -> list[dict]:
    """What a controller hears of these capacities, one message after the other."""
    heard: queue.Queue = queue.Queue()
    feed = Feed(settings, lambda rates, at: heard.put(rates), seed)
    try:
        if again:
            for rates in told:
                feed.tell(rates, time.monotonic())
            feed.forget()
            while not heard.empty():
                heard.get()
        for rates in told:
            feed.tell(rates, time.monotonic())
        return [heard.get(timeout=10) for _ in told]
    finally:
        feed.close()


def test_without_noise_quantum_and_loss_a_report_is_the_capacity():
    assert _reports(FeedSettings(), 25e6, count=3) == [25e6] * 3


def test_noise_is_a_fraction_of_the_capacity_and_never_says_that_a_link_is_dead():
    reports = _reports(FeedSettings(noise=0.1), 50e6)

    assert statistics.mean(reports) == pytest.approx(50e6, rel=0.01)
    assert statistics.stdev(reports) == pytest.approx(5e6, rel=0.05)
    assert min(_reports(FeedSettings(noise=0.99), 50e6)) >= 0.01 * 50e6


@pytest.mark.parametrize(("rate_bps", "told_bps"), [(14e6, 10e6), (16e6, 20e6), (1e6, 10e6), (40e6, 40e6)])
def test_a_quantum_rounds_but_never_to_nothing(rate_bps: float, told_bps: float):
    assert _reports(FeedSettings(quantum_bps=10e6), rate_bps, count=1) == [told_bps]


def test_reports_are_lost_as_often_as_set_and_loss_changes_no_other_report():
    lossless, lossy = (_reports(FeedSettings(noise=0.1, loss=loss), 50e6) for loss in (0.0, 0.25))

    assert lossy.count(None) / len(lossy) == pytest.approx(0.25, abs=0.03)
    assert all(two in (None, one) for one, two in zip(lossless, lossy, strict=True))


def test_the_same_seed_tells_the_same_of_each_edge_whatever_is_told_of_others():
    settings = FeedSettings(noise=0.2)
    told = [{EDGE: 10e6}, {EDGE: 20e6}]

    alone = _heard(settings, 7, told)
    together = _heard(settings, 7, [{OTHER: 5e6, **rates} for rates in told])

    assert [rates[EDGE] for rates in together] == [rates[EDGE] for rates in alone]
    assert _heard(settings, 8, told) != alone


def test_after_forgetting_the_feed_begins_anew():
    told = [{EDGE: 10e6}, {EDGE: 20e6}]

    assert _heard(FeedSettings(noise=0.2), 7, told, again=True) == _heard(FeedSettings(noise=0.2), 7, told)


def test_a_lost_report_of_one_edge_leaves_those_of_the_others():
    heard: queue.Queue = queue.Queue()
    feed = Feed(FeedSettings(loss=0.5), lambda rates, at: heard.put(rates))
    for number in range(100):
        feed.tell({EDGE: number, OTHER: number, ("c", "a"): number}, happened_at=0.0)
    messages = [heard.get(timeout=10) for _ in range(50)]
    feed.close()

    assert {len(rates) for rates in messages} == {1, 2, 3}


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        (FeedSettings(0.25), "capacity: feed, delay 0.25 s"),
        (
            FeedSettings(0.0, 0.05, 10e6, 0.01),
            "capacity: feed, delay 0 s, noise 0.05 of the capacity, in steps of 10 Mbit/s, 0.01 of the reports lost",
        ),
    ],
)
def test_the_label_says_everything_that_a_result_depends_on(settings: FeedSettings, label: str):
    assert settings.label == label


@pytest.mark.parametrize(
    "wrong", [{"delay_s": -1.0}, {"noise": 1.0}, {"quantum_bps": -1.0}, {"loss": 1.0}, {"noise": float("nan")}]
)
def test_settings_out_of_range_are_refused(wrong: dict):
    with pytest.raises(InputError, match=next(iter(wrong))):
        FeedSettings(**wrong)
