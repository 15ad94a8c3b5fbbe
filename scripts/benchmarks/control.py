"""Figures of the WAN controller: how soon a pair leaves a link that lost capacity, and what a move costs."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.collectives import job_on, workers_of
from benchmarks.figure import Figure, Reach, figure, percentile
from benchmarks.flow import packet_counts, packets_lost, steady_flow
from controller.client import EventStream
from testbed.bed import Testbed
from testbed.feed import FeedSettings
from topologies import RingroadError
from topologies.model import Edge
from topologies.wanfile import load_wan

DROPS = 200
DROPPED_BPS = 8e6
LOAD_BYTES = 2**20
BETWEEN_DROPS_S = 0.1
"""A pace, not a wait: time in which the load settles on its new paths."""
EVENT_S = 10.0
MOVES = 100
BETWEEN_MOVES_S = 0.05
MOVED_PAIR = ("tokyo", "virginia")
FLOW_BPS = 20e6


def capacity_drops() -> Iterator[Figure]:
    """Capacity of a used link drops, again and again, with rings running on six: how soon is the new rule confirmed?"""
    took_s = []
    with Testbed(load_wan("six"), feed=FeedSettings(delay_s=0.0)) as bed, load(bed):
        assert bed.controller is not None
        with bed.controller.subscribe() as stream:
            for number in range(DROPS):
                edge = _used_edge(bed, number)
                took_s.append(_seconds_until_installed(bed, stream, edge))
                bed.shape(edge, rate_bps=bed.wan.edges[edge].rate_bps, direction=edge)
                time.sleep(BETWEEN_DROPS_S)
    p99_ms = percentile(took_s, 0.99) * 1e3
    name = "capacity drop → new ingress rule confirmed, six under load, p99"
    yield figure(name, p99_ms, "ms", f"the kernel's change of rate, {DROPS} drops, feed delay 0", Reach(at_most=100))


def planned_moves() -> Iterator[Figure]:
    """A pair moved between its paths under a running TCP flow: how many packets are lost?"""
    with Testbed(load_wan("six")) as bed:
        assert bed.controller is not None
        paths = bed.controller.view().tunnels[MOVED_PAIR]
        before = packet_counts(bed, MOVED_PAIR)
        with steady_flow(bed, MOVED_PAIR, FLOW_BPS):
            for _, path in zip(range(MOVES), itertools.cycle(paths), strict=False):
                bed.controller.pin(MOVED_PAIR, path)
                time.sleep(BETWEEN_MOVES_S)
        lost = packets_lost(bed, MOVED_PAIR, *before)
        sent = packet_counts(bed, MOVED_PAIR)[0] - before[0]
    against = f"{sent} packets of a TCP flow, {MOVES} moves among {len(paths)} paths"
    yield figure("planned path move, packets lost", lost, "packets", against, Reach(at_least=0, at_most=0))


@contextmanager
def load(bed: Testbed, size_bytes: int = LOAD_BYTES, **fields: object) -> Iterator[None]:
    """AllGathers without end while the context lasts, the first of them over when it begins; `fields` of the `Job`."""
    first = threading.Event()
    with workers_of(bed) as workers:
        workers.start(job_on(bed, size_bytes, collectives=10**6, **fields))
        thread = threading.Thread(target=workers.run, args=(lambda _: first.set(),), name="load", daemon=True)
        thread.start()
        try:
            first.wait()
            yield
        finally:
            workers.stop()
            thread.join()


def _used_edge(bed: Testbed, number: int) -> Edge:
    """The first edge on the route of one of the pairs that send, another pair each time."""
    assert bed.controller is not None
    view = bed.controller.view()
    pairs = sorted(view.active or view.routes)
    route = view.routes[pairs[number % len(pairs)]]
    return route[0], route[1]


def _seconds_until_installed(bed: Testbed, stream: EventStream, edge: Edge) -> float:
    """Drop an edge's capacity; from when the kernel held it until the switches confirmed the move."""
    called_at = time.monotonic()
    bed.shape(edge, rate_bps=DROPPED_BPS, direction=edge)
    try:
        for event in stream.events(timeout_s=EVENT_S):
            mine = event.get("cause") == "capacity" and event["happened_at"] >= called_at
            if event["event"] == "reconfiguration" and mine and event["installed_at"] is not None:
                return event["installed_at"] - event["happened_at"]
    except TimeoutError as error:
        raise RingroadError(f"no pair has left {edge[0]} → {edge[1]} within {EVENT_S:g} s") from error
    raise RingroadError("the controller is gone", f"look at {bed.log_folder}/controller.log")
