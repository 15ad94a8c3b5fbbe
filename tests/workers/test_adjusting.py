"""A job that is changed while it runs: the ring agent's N, and a ring taken by hand, without a rank started anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loopback import MakeJob

from topologies.wire import WireError
from workers.client import WorkersClient
from workers.job import Agent, Every


def _run(client: WorkersClient, job: Any, adjust: dict[int, dict[str, Any]]) -> tuple[list, list]:
    """Collectives and decisions of a job; after collective i it is adjusted by `adjust[i]`."""
    collectives, decisions = [], []

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "ring_change":
            decisions.append(event)
            return
        collectives.append(event)
        if event["index"] in adjust:
            client.adjust(**adjust[event["index"]])

    client.start(job)
    assert client.run(on_event)
    return collectives, decisions


def test_a_ring_taken_by_hand_is_run_by_all_ranks_and_counts_as_a_change(client: WorkersClient, job: MakeJob):
    # given collectives of which each begins 30 ms after the one before, so that an adjustment comes in between
    plan = job(collectives=8, pacing=Every(0.03))
    # when, after the second one, another ring is asked for
    collectives, decisions = _run(client, plan, {1: {"order": [0, 2, 1, 3]}})
    # then every element was right throughout, the order changed once, and stayed
    assert all(c["verified"] for c in collectives)
    orders = [tuple(c["order"]) for c in collectives]
    first = orders.index((0, 2, 1, 3))
    assert 2 <= first <= 4
    assert orders == [(0, 1, 2, 3)] * first + [(0, 2, 1, 3)] * (8 - first)
    assert [c["epoch"] for c in collectives] == [0] * first + [1] * (8 - first)
    assert decisions == []


def test_the_agent_acts_as_often_as_it_is_told_from_then_on(client: WorkersClient, job: MakeJob):
    plan = job(collectives=12, agent=Agent(every=0, policy="random"), seed=7, pacing=Every(0.03))
    _, decisions = _run(client, plan, {1: {"every": 2}, 7: {"every": 0}})
    assert {d["before_collective"] for d in decisions} <= {2, 4, 6, 8, 10}
    assert {4, 6} <= {d["before_collective"] for d in decisions}
    assert 10 not in {d["before_collective"] for d in decisions}


def test_a_ring_that_is_none_is_refused_and_the_job_goes_on(client: WorkersClient, job: MakeJob):
    client.start(job(collectives=1))
    with pytest.raises(WireError, match="every rank once"):
        client.adjust(order=[0, 0, 1, 2])
    with pytest.raises(WireError, match="every rank once"):
        client.adjust(order=[0, 1, 2])
    assert client.run(lambda _: None)


def test_without_a_job_there_is_nothing_to_adjust(launcher_socket: Path):
    with WorkersClient(launcher_socket) as client, pytest.raises(WireError, match="no job"):
        client.adjust(every=3)
