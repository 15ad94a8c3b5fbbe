"""Ranks that measure: every collective and every implementation on loopback, every element of every result checked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from loopback import MakeJob

from workers.client import WorkersClient
from workers.network import isolated, reversed_network
from workers.perfjob import COLLECTIVES, GLOO, PLANNABLE, RING, Perf
from workers.perfvalues import Values
from workers.schedules.choice import planned
from workers.schedules.forest import forest_to_json

KIB = 2**10


def records(client: WorkersClient, job: MakeJob, perf: Perf, **fields: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    client.start(job(collectives=perf.rounds, warmup=0, perf=perf, **fields))
    assert client.run(events.append)
    return events


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_measured_at_every_size_beside_stock_gloo(
    client: WorkersClient, job: MakeJob, collective: str
):
    # given 4 KiB, which goes by messages, and 1 MiB, which goes in bulk
    perf = Perf(collective, (4 * KIB, 1024 * KIB), iterations=2, implementations=(RING, GLOO), root=2)
    found = records(client, job, perf, start_order=(0, 2, 1, 3))
    # then one warm-up and two iterations of each, all right
    assert [(r["size_bytes"] // KIB, r["iteration"]) for r in found] == [
        (size, iteration) for size in (4, 1024) for iteration in (-1, 0, 1)
    ]
    assert all(r["wrong"] == {RING: 0, GLOO: 0} for r in found)
    assert all(min(r["time_s"].values()) > 0 for r in found)


@pytest.mark.parametrize(
    ("collective", "datatype", "op"),
    [("all_reduce", "bfloat16", "avg"), ("all_reduce", "int64", "prod"), ("reduce_scatter", "half", "max")],
)
def test_types_and_operations_are_checked_by_what_they_must_give(
    client: WorkersClient, job: MakeJob, collective: str, datatype: str, op: str
):
    perf = Perf(collective, (512 * KIB,), iterations=1, datatype=datatype, op=op)
    assert all(r["wrong"] == {RING: 0} for r in records(client, job, perf))


@pytest.mark.parametrize("collective", sorted(PLANNABLE))
def test_planned_schedules_serve_what_they_can(client: WorkersClient, job: MakeJob, collective: str):
    network = isolated(tuple(tuple(1e8 * (1 + (a + 2 * b) % 3) for b in range(4)) for a in range(4)))
    forests = tuple(
        forest_to_json(planned("trees", each, (0, 1, 2, 3), 2**18, 2**15).forest)
        for each in (network, reversed_network(network))
    )
    perf = Perf(collective, (1024 * KIB,), iterations=2, schedule="trees", forests=forests)
    assert all(r["wrong"] == {RING: 0} for r in records(client, job, perf))


def test_a_wrong_element_is_counted():
    values = Values("float", "sum")
    right = values.reduced(3, 0, 1000, number=4)
    # then each place is the sum of the three ranks'
    assert torch.equal(right, sum(values.of(rank, 0, 1000, 4) for rank in range(3)))
    damaged = right.clone()
    damaged[7] += 1
    damaged[999] = 127
    assert values.wrong(right, lambda begin, end: values.reduced(3, begin, end, 4)) == 0
    assert values.wrong(damaged, lambda begin, end: values.reduced(3, begin, end, 4)) == 2


def test_what_another_rank_or_round_gives_is_wrong():
    values = Values("uint8", "none")
    mine = values.of(1, 0, 127, number=5)
    for other in (values.of(2, 0, 127, 5), values.of(1, 0, 127, 6), values.of(1, 1, 128, 5)):
        assert values.wrong(other, lambda begin, end: mine[begin:end]) == 127
