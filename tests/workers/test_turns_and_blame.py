"""When collectives start and end, what their records say, and who is to blame, without a process."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.blame import Failure, Kind, culprit, is_certain
from workers.job import Agent, Every, Job, Rank
from workers.probing import partners, rate_bps
from workers.turns import agent_is_due, collective_record, implementation_of, is_over, scheduled_start


def job(**fields: object) -> Job:
    ranks = (Rank("a"), Rank("b"))
    return Job(**{"ranks": ranks, "size_bytes": 8, "log_folder": "/l", **fields})  # type: ignore[arg-type]


def test_every_s_seconds_means_multiples_from_the_start():
    assert [scheduled_start(job(pacing=Every(2.5)), i, 100.0) for i in range(3)] == [100.0, 102.5, 105.0]


def test_back_to_back_only_the_first_has_a_time():
    assert [scheduled_start(job(), i, 100.0) for i in range(3)] == [100.0, None, None]


def test_a_run_is_over_after_its_collectives():
    assert not is_over(job(collectives=3), 2, 0.0, 1e9)
    assert is_over(job(collectives=3), 3, 0.0, 0.0)


def test_no_collective_starts_after_the_duration():
    back_to_back = job(collectives=99, duration_s=10.0)
    assert not is_over(back_to_back, 5, run_start=100.0, now=109.9)
    assert is_over(back_to_back, 5, run_start=100.0, now=110.0)
    paced = job(collectives=99, duration_s=10.0, pacing=Every(3.0))
    assert not is_over(paced, 3, run_start=100.0, now=106.5)  # starts at 109
    assert is_over(paced, 4, run_start=100.0, now=109.5)  # would start at 112


def test_the_agent_works_before_every_nth_collective_but_not_in_the_warm_up():
    due = [i for i in range(-2, 10) if agent_is_due(job(agent=Agent(every=3)), i)]
    assert due == [3, 6, 9]
    assert not any(agent_is_due(job(), i) for i in range(-2, 10))


def test_measured_once_measures_before_the_first_collective():
    assert [i for i in range(-2, 10) if agent_is_due(job(initial_order="measured_once"), i)] == [0]


def test_an_order_that_was_measured_before_is_not_measured_again():
    known = dataclasses.replace(job(initial_order="measured_once"), start_order=(1, 0))
    assert not any(agent_is_due(known, i) for i in range(-2, 10))


def test_implementations_take_turns():
    both = job(implementations=("ring", "gloo"))
    assert [implementation_of(both, i) for i in range(3)] == ["ring", "gloo", "ring"]


COMMON = {"collective": 4, "epoch": 1, "order": [1, 0], "members": [0, 1], "schedule": "ring", "implementation": "ring"}
RANKS = [
    {**COMMON, "turn_start": 10.0, "start": 11.0, "end": 12.5, "verified": True},
    {**COMMON, "turn_start": 10.25, "start": 11.25, "end": 13.0, "verified": True},
]


def test_a_collective_lasts_from_the_first_start_to_the_last_end():
    record = collective_record(job(), 10.0, RANKS)
    assert (record["start"], record["end"], record["time_s"]) == (11.0, 13.0, 2.0)
    assert (record["turn_start"], record["agent_s"], record["scheduled_start"]) == (10.0, 1.0, 10.0)
    assert (record["rank_start"], record["rank_end"]) == ([11.0, 11.25], [12.5, 13.0])
    assert record["verified"]
    assert (record["members"], record["attempts"]) == ([0, 1], 1)


def test_a_collective_that_was_interrupted_lasts_from_its_first_attempt():
    record = collective_record(job(), 7.0, RANKS, interrupted=[7.5, 9.0])
    assert (record["start"], record["end"], record["time_s"]) == (7.5, 13.0, 5.5)
    assert (record["turn_start"], record["agent_s"], record["attempts"]) == (7.5, 0.0, 3)


def test_a_death_is_the_culprit_whoever_complains_first():
    complaints = [Failure(0, Kind.CONNECTION, "reset"), Failure(1, Kind.CONNECTION, "reset")]
    assert culprit(complaints).rank == 0
    assert not is_certain(complaints)
    with_death = [*complaints, Failure(3, Kind.DIED, "was killed by SIGKILL")]
    assert culprit(with_death).rank == 3
    assert is_certain(with_death)


def test_of_broken_connections_the_wait_that_timed_out_is_the_cause():
    complaints = [
        Failure(0, Kind.CONNECTION, "closed by peer"),
        Failure(3, Kind.CONNECTION, "Timed out waiting 1000ms"),
    ]
    assert culprit(complaints).rank == 3


def test_a_wrong_result_outweighs_the_connections_it_breaks():
    reports = [Failure(0, Kind.CONNECTION, "reset"), Failure(2, Kind.FAILED, "element 5"), Failure(1, Kind.FAILED, "")]
    assert culprit(reports).rank == 2


@given(st.integers(2, 40))
def test_in_a_tournament_every_pair_meets_once_and_nobody_is_in_two_pairs_at_a_time(ranks: int):
    rounds = partners(ranks)
    assert len(rounds) == (ranks - 1 if ranks % 2 == 0 else ranks)
    meetings = [(a, b) for met in rounds for a, b in enumerate(met) if b is not None]
    assert all(met[b] == a for met in rounds for a, b in enumerate(met) if b is not None)
    assert sorted(meetings) == [(a, b) for a in range(ranks) for b in range(ranks) if a != b]


def test_chunks_that_arrive_evenly_show_their_rate():
    # 1000 bytes every 10 ms are 800 kbit/s
    assert rate_bps([0.0, 0.01, 0.02, 0.03], 1000) == pytest.approx(800e3)


def test_one_stall_or_one_burst_does_not_change_the_rate():
    stall = [0.0, 0.01, 0.25, 0.26, 0.27, 0.28, 0.29, 0.30]
    burst = [0.0, 0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
    assert rate_bps(stall, 1000) == pytest.approx(800e3, rel=0.1)
    assert rate_bps(burst, 1000) == pytest.approx(800e3, rel=0.1)


def test_chunks_that_arrive_at_once_show_a_finite_rate():
    assert rate_bps([1.0, 1.0, 1.0], 1000) == pytest.approx(8e9)


def test_two_ranks_that_disagree_about_the_epoch_never_share_a_tag():
    pytest.importorskip("torch")
    from workers.collectives import tag

    tags = {tag(epoch, sequence, number) for epoch in range(3) for sequence in range(3) for number in (0, 1, 2**15 - 1)}
    assert len(tags) == 27
    assert tag(63, 1023, 2**15 - 1) == 2**31 - 1
    assert tag(64, 1024, 5) == 5
