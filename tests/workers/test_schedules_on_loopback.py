"""Every schedule over real gloo on loopback, element by element, as the agent plans it; and what the ring shows it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest
from loopback import DCS, MakeJob, results, runner_that_knows

from workers.client import WorkerFailed, WorkersClient
from workers.job import Agent

LINKS = [[a, b, rate] for (a, b), rate in zip(permutations(DCS, 2), [20e6 + 7e6 * i for i in range(12)], strict=True)]
"""Every pair of DCs joined by a link of its own, each with another rate."""


@pytest.fixture
def links_socket(tmp_path: Path) -> Iterator[Path]:
    """A runner that knows links and routes: every pair of DCs has a link of its own."""
    rates = {(a, b): rate for a, b, rate in LINKS}
    matrix = [[rates.get((a, b), 0.0) for b in DCS] for a in DCS]
    known = {"bandwidths": matrix, "links": LINKS, "routes": [[a, b, [a, b]] for a, b in rates]}
    with runner_that_knows(tmp_path, {"oracle": known}) as path:
        yield path


@pytest.mark.parametrize("schedule", ["bidirectional", "multiring", "trees", "auto"])
def test_every_schedule_moves_every_element_over_real_connections(
    client: WorkersClient, job: MakeJob, links_socket: Path, schedule: str
):
    # given a schedule that is planned before the first collective, on links that all differ
    plan = job(
        schedule=schedule,
        collectives=4,
        size_bytes=252 * 1024,
        agent=Agent(source="oracle", policy="shared"),
        initial_order="measured_once",
        bandwidth_socket=str(links_socket),
    )
    collectives, changes = results(client, plan)
    # then each collective was verified element by element, on what the agent had planned
    assert [c["verified"] for c in collectives] == [True] * 4
    assert [change["before_collective"] for change in changes] == [0]
    assert {c["schedule"] for c in collectives} == {"trees" if schedule == "auto" else schedule}


def test_what_the_ring_itself_shows_leads_to_another_ring(client: WorkersClient, job: MakeJob):
    # given that nothing but the collectives is measured
    # and a payload that would else go in two chunks, too few to see a rate
    plan = job(collectives=4, chunk_bytes=128 * 1024, agent=Agent(every=1, source="passive", margin=0.0))
    collectives, changes = results(client, plan)
    assert all(c["verified"] for c in collectives)
    # then before the second collective the four pairs of the first ring are known, and the others guessed from them
    first = changes[0]
    order = first["from"]
    for place, rank in enumerate(order):
        after = order[(place + 1) % 4]
        assert first["ages_s"][rank][after] is not None
        assert first["bandwidths"][rank][after] > 0
    never_seen = [(a, b) for a in range(4) for b in range(4) if a != b and first["ages_s"][a][b] is None]
    assert len(never_seen) == 8
    assert len({first["bandwidths"][a][b] for a, b in never_seen}) == 1


def test_a_policy_that_needs_links_refuses_what_only_sees_pairs(client: WorkersClient, job: MakeJob):
    with pytest.raises(WorkerFailed, match="'shared' needs links and routes"):
        client.start(job(agent=Agent(every=1, source="probe", policy="shared")))
