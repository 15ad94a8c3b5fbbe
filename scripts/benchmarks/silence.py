"""Figures of links that fall silent: how soon is one found that is a blackhole, and is a full one taken for it?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.figure import Figure, Reach, figure, figures_of, percentile
from benchmarks.flow import steady_flow
from controller.client import EventStream
from testbed.bed import Testbed
from testbed.measure import goodput, pinned_to_edges
from topologies import RingroadError
from topologies.wanfile import load_wan

SATURATION_S = 600.0
BLACKHOLES = 30
STEADY_S = 3.0
"""A pace, not a wait: after a link has come back BFD takes so long to be as quick as it was."""
PAIR = ("tokyo", "virginia")
FLOW_BPS = 20e6
EVENT_S = 20.0


def measure(say: Callable[[str], None]) -> Iterator[Figure]:
    """Silent links: how soon is a blackhole left, and does ten minutes of full links look like one?"""
    yield from figures_of((blackholes, false_alarms), say)


def false_alarms(seconds: float = SATURATION_S) -> Iterator[Figure]:
    """Every link of mesh4 full in both directions: how often is one taken for dead?"""
    with Testbed(load_wan("mesh4")) as bed, pinned_to_edges(bed), _link_events(bed) as events:
        measured = goodput(bed, seconds=seconds)
        drops = sum(status.queue_drops for status in bed.links())
    least = min(each.ratio for each in measured.values())
    against = f"{len(measured)} directions at {least:.2f} of their rate or more, {drops} packets dropped by full queues"
    name = f"links taken for dead in {seconds:g} s of saturation"
    yield figure(name, sum(not event["up"] for event in events), "links", against, Reach(at_least=0, at_most=0))


def blackholes() -> Iterator[Figure]:
    """A link under a flow that stays up and lets nothing through: how soon has the pair left it?"""
    took_s = []
    with Testbed(load_wan("mesh4")) as bed, steady_flow(bed, PAIR, FLOW_BPS):
        assert bed.controller is not None
        with bed.controller.subscribe() as stream:
            for _ in range(BLACKHOLES):
                time.sleep(STEADY_S)
                route = bed.controller.view().routes[PAIR]
                called_at = time.monotonic()
                bed.blackhole(route[:2])
                took_s.append(_installed_at(stream, called_at) - called_at)
                bed.heal(route[:2])
                while bed.controller.view().down:
                    _next(stream, lambda event: event["event"] == "link" and event["up"])
    against = f"{BLACKHOLES} blackholes under a TCP flow, until the ingress rule is confirmed"
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        value_ms = percentile(took_s, share) * 1e3
        yield figure(f"blackhole → pair on another path, {name}", value_ms, "ms", against, Reach(at_most=500))


@contextmanager
def _link_events(bed: Testbed) -> Iterator[list[dict[str, Any]]]:
    """Every `link` event while the context lasts."""
    assert bed.controller is not None
    found: list[dict[str, Any]] = []
    stream = bed.controller.subscribe()

    def _listen() -> None:
        for event in stream.events():
            if event["event"] == "link":
                found.append(event)

    thread = threading.Thread(target=_listen, name="link events", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stream.close()
        thread.join()


def _installed_at(stream: EventStream, called_at: float) -> float:
    event = _next(
        stream,
        lambda event: (
            event["event"] == "reconfiguration"
            and event["cause"] == "blackhole"
            and event["happened_at"] >= called_at
            and list(PAIR) in [move["pair"] for move in event["moves"]]
        ),
    )
    return event["installed_at"]


def _next(stream: EventStream, wanted: Any) -> dict[str, Any]:
    try:
        return next(event for event in stream.events(timeout_s=EVENT_S) if wanted(event))
    except (TimeoutError, StopIteration) as error:
        raise RingroadError(f"the controller has told nothing of it within {EVENT_S:g} s") from error
