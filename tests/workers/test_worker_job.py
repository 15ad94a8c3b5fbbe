"""What a job refuses, and that it survives the way to the launcher."""

import json
from typing import Any

import pytest

from topologies.errors import InputError
from workers.job import Agent, Every, Job, Probe, Rank, job_from_json, job_to_json, rank_name

RANKS = (Rank("São Paulo"), Rank("tokyo", 4711))


def job(**fields: object) -> Job:
    return Job(**{"ranks": RANKS, "size_bytes": 1024, "log_folder": "/logs", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pacing": Every(2.5), "duration_s": 10.0, "implementations": ("ring", "gloo")},
        {"agent": Agent(5, "feed", "random", 0.2, Probe(10, 1, 20)), "bandwidth_socket": "/run/b"},
    ],
)
def test_a_job_comes_back_from_json_as_it_was(fields: dict[str, object]):
    assert job_from_json(json.loads(json.dumps(job_to_json(job(**fields))))) == job(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"ranks": RANKS[:1]},
        {"size_bytes": 0},
        {"size_bytes": 1023},
        {"chunk_bytes": 6},
        {"collectives": 0},
        {"warmup": -1},
        {"timeout_s": 0.0},
        {"duration_s": -1.0},
        {"implementations": ()},
        {"implementations": ("nccl",)},
        {"log_folder": "logs"},
        {"agent": Agent(1, "feed")},
        {"initial_order": "measured_once", "agent": Agent(0, "oracle")},
        {"schedule": "trees"},
    ],
)
def test_a_job_that_cannot_run_is_refused_with_the_field_and_a_remedy(fields: dict[str, object]):
    with pytest.raises(InputError, match=r"job: \w+.*\n.*remedy"):
        job(**fields)


@pytest.mark.parametrize("fields", [{"change_cost_s": -1.0}, {"half_life_s": 0.0}, {"source": "rumour"}])
def test_an_agent_that_cannot_work_is_refused_too(fields: dict[str, Any]):
    with pytest.raises(InputError, match=r"agent.\w+.*\n.*remedy"):
        Agent(**fields)


def test_an_unknown_field_is_refused():
    with pytest.raises(InputError, match="no such field"):
        job_from_json({**job_to_json(job()), "sizes": 3})


def test_a_rank_is_named_with_its_dc():
    assert rank_name(job(), 1) == "rank 1 (tokyo)"
