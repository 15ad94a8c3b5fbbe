"""Elastic jobs: who is left goes on, who comes back rejoins, and every element of every result is right throughout."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from loopback import DCS, MakeJob

from topologies.wire import WireError
from workers.client import WorkerFailed, WorkersClient
from workers.job import Agent, Every, Job

KIB = 1024


class Course:
    """What happened in a job; `after[i]` is done when collective i has ended."""

    def __init__(self, client: WorkersClient) -> None:
        self.client = client
        self.collectives: list[dict[str, Any]] = []
        self.changes: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []

    def run(self, job: Job, after: dict[int, Any]) -> None:
        def on_event(event: dict[str, Any]) -> None:
            kinds = {"collective": self.collectives, "membership": self.changes, "ring_change": self.decisions}
            kinds[event["event"]].append(event)
            if event["event"] == "collective" and event["index"] in after:
                after[event["index"]]()

        self.pids = self.client.start(job)["pids"]
        assert self.client.run(on_event)

    def kill(self, *ranks: int) -> None:
        for rank in ranks:
            os.kill(self.pids[rank], signal.SIGKILL)

    def members(self) -> list[list[int]]:
        return [collective["members"] for collective in self.collectives]


@pytest.fixture
def course(client: WorkersClient) -> Course:
    return Course(client)


def assert_every_collective_is_there_and_right(course: Course, count: int) -> None:
    assert [c["index"] for c in course.collectives] == list(range(count))
    assert all(c["verified"] for c in course.collectives)
    for c in course.collectives:
        assert sorted(c["order"]) == c["members"]
        assert len(c["rank_end"]) == len(c["members"])


@pytest.mark.parametrize("rank", range(4))
def test_whichever_rank_dies_the_others_go_on(course: Course, job: MakeJob, rank: int):
    # given long collectives, in one of which a rank is killed
    later = threading.Timer
    course.run(
        job(size_bytes=2048 * KIB, collectives=8, elastic=True),
        {1: lambda: later(0.02, course.kill, [rank]).start()},
    )
    assert_every_collective_is_there_and_right(course, 8)
    left = [other for other in range(4) if other != rank]
    assert course.members()[0] == [0, 1, 2, 3] and course.members()[-1] == left
    # and the record says who left and why, who goes on, in which ring, and that it took moments
    (change,) = course.changes
    (gone,) = change["left"]
    assert (gone["rank"], gone["dc"], gone["why"]) == (rank, DCS[rank], "was killed by SIGKILL")
    assert (change["members"], change["dcs"]) == (left, [DCS[r] for r in left])
    assert (change["order"], change["epoch"], change["joined"], change["broken"]) == (left, 1, [], None)
    assert change["at"] <= gone["at"] + 1.0 and change["formed_at"] - change["at"] == change["pause_s"] < 5.0
    # and who was interrupted lost no collective: it lasts from its first attempt on
    again = [c for c in course.collectives if c["attempts"] > 1]
    assert [c["index"] for c in again] == ([change["before_collective"]] if change["interrupted"] else [])
    assert all(c["start"] < change["at"] < change["formed_at"] < c["end"] for c in again)


def test_two_that_die_at_once_leave_two_that_go_on(course: Course, job: MakeJob):
    course.run(job(size_bytes=1024 * KIB, collectives=6, elastic=True), {1: lambda: course.kill(0, 2)})
    assert_every_collective_is_there_and_right(course, 6)
    assert course.members()[-1] == [1, 3]
    gone = [left["rank"] for change in course.changes for left in change["left"]]
    assert sorted(gone) == [0, 2]


def test_one_that_dies_while_the_others_wait_is_not_missed_until_the_next_collective(course: Course, job: MakeJob):
    course.run(job(collectives=4, pacing=Every(0.3), elastic=True), {1: lambda: course.kill(3)})
    assert_every_collective_is_there_and_right(course, 4)
    assert course.members() == [[0, 1, 2, 3]] * 2 + [[0, 1, 2]] * 2
    assert [change["interrupted"] for change in course.changes] == [False]
    # and nobody waits for it: the next one begins when it was to
    assert all(c["start"] - c["scheduled_start"] < 0.2 for c in course.collectives)


def test_one_that_dies_in_the_warm_up_is_told_of_at_the_start(client: WorkersClient, job: MakeJob):
    changes: list[dict[str, Any]] = []
    killer = threading.Timer(0.3, lambda: client.crash("tokyo"))
    killer.start()
    plan = job(size_bytes=1024 * KIB, warmup=40, collectives=2, elastic=True)
    reply = client.start(plan, changes.append)
    killer.join()
    collectives: list[dict[str, Any]] = []
    assert client.run(collectives.append)
    assert reply["pids"][2] is None and len(reply["warmup_s"]) == 40
    assert [left["dc"] for change in changes for left in change["left"]] == ["tokyo"]
    assert [c["members"] for c in collectives] == [[0, 1, 3]] * 2


@pytest.mark.parametrize("source", ["probe", "passive"])
def test_one_that_dies_while_the_ring_is_changed_leaves_no_two_rings(course: Course, job: MakeJob, source: str):
    # given an agent that changes the ring before every collective; killed: first the one that decides, then another
    agent = Agent(every=1, source=source, policy="random")
    course.run(
        job(collectives=40, agent=agent, seed=3, elastic=True),
        {9: lambda: threading.Timer(0.004, course.kill, [0]).start(), 19: lambda: course.kill(2)},
    )
    assert_every_collective_is_there_and_right(course, 40)
    assert course.members()[-1] == [1, 3]
    # then epochs only count up, and whoever decides knows who is there
    epochs = [c["epoch"] for c in course.collectives]
    assert epochs == sorted(epochs)
    assert all(sorted(d["to"]) == d["members"] for d in course.decisions)
    assert course.decisions[-1]["before_collective"] == 39


def test_a_dc_that_comes_back_rejoins_where_it_was(course: Course, job: MakeJob, client: WorkersClient):
    course.run(
        job(collectives=9, pacing=Every(0.1), elastic=True, start_order=(0, 2, 1, 3)),
        {2: lambda: client.crash("tokyo"), 5: lambda: client.restart("tokyo")},
    )
    assert_every_collective_is_there_and_right(course, 9)
    left, back = course.changes
    assert (left["order"], left["epoch"]) == ([0, 1, 3], 1)
    assert (back["order"], back["epoch"]) == ([0, 2, 1, 3], 2)
    assert [(j["rank"], j["dc"]) for j in back["joined"]] == [(2, "tokyo")]
    assert (back["interrupted"], back["left"]) == (False, [])
    assert course.members() == [[0, 1, 2, 3]] * 3 + [[0, 1, 3]] * 3 + [[0, 1, 2, 3]] * 3


def test_one_comes_back_while_another_dies(course: Course, job: MakeJob, client: WorkersClient):
    def both() -> None:
        client.restart("tokyo")
        course.kill(0)

    course.run(job(size_bytes=512 * KIB, collectives=8, elastic=True), {1: lambda: client.crash("tokyo"), 3: both})
    assert_every_collective_is_there_and_right(course, 8)
    assert course.members()[-1] == [1, 2, 3]


def test_one_that_comes_back_and_dies_at_once_is_no_trouble(course: Course, job: MakeJob, client: WorkersClient):
    def there_and_gone() -> None:
        client.restart("tokyo")
        client.crash("tokyo")

    after = {0: lambda: client.crash("tokyo"), 1: there_and_gone}
    course.run(job(collectives=4, pacing=Every(0.1), elastic=True), after)
    assert_every_collective_is_there_and_right(course, 4)
    assert course.members()[-1] == [0, 1, 3]
    # and it is told to have left as often as it was there
    came, went = (sum(len(change[which]) for change in course.changes) for which in ("joined", "left"))
    assert went == came + 1


def test_many_that_come_and_go_leave_no_descriptors_behind(course: Course, job: MakeJob, client: WorkersClient):
    counts: list[int] = []

    def cycle() -> None:
        client.crash("iowa")
        client.restart("iowa")
        counts.append(len(os.listdir(f"/proc/{course.pids[0]}/fd")))  # noqa: PTH208

    course.run(job(collectives=18, pacing=Every(0.05), elastic=True), dict.fromkeys(range(16), cycle))
    assert_every_collective_is_there_and_right(course, 18)
    assert max(counts[8:]) <= max(counts[:8]) + 12


def test_fewer_than_two_are_no_job(course: Course, job: MakeJob):
    with pytest.raises(WorkerFailed, match=r"rank \d \(.*\): was killed by SIGKILL, and fewer than 2 ranks are left"):
        course.run(job(collectives=1000, elastic=True), {1: lambda: course.kill(0, 1, 2)})


def test_one_that_is_stopped_is_given_up_where_the_job_is_elastic(course: Course, job: MakeJob):
    stop = lambda: os.kill(course.pids[1], signal.SIGSTOP)  # noqa: E731
    course.run(job(collectives=5, timeout_s=1.0, elastic=True), {1: stop})
    assert_every_collective_is_there_and_right(course, 5)
    (change,) = course.changes
    assert [(left["rank"], left["why"]) for left in change["left"]] == [(1, "has been stopped, as by SIGSTOP")]


@pytest.mark.parametrize("elastic", [True, False])
def test_a_timeout_of_gloo_rebuilds_the_groups_and_no_process(
    course: Course, job: MakeJob, tmp_path: Path, elastic: bool
):
    # given a rank that once does nothing for longer than gloo waits
    flag = tmp_path / "hesitates"
    plan = job(collectives=6, timeout_s=1.0, schedule="damaged_schedules:hesitating", elastic=elastic)
    course.run(plan, {2: flag.touch})
    # then the collective is run again by the same processes, over new connections
    assert_every_collective_is_there_and_right(course, 6)
    assert course.members() == [[0, 1, 2, 3]] * 6
    (change,) = course.changes
    assert change["broken"].startswith("rank ") and (change["left"], change["joined"]) == ([], [])
    assert (change["epoch"], change["interrupted"]) == (0, True)
    (again,) = (c for c in course.collectives if c["attempts"] > 1)
    assert (again["index"], again["attempts"]) == (change["before_collective"], 2)
    assert again["time_s"] > 1.0


def test_connections_that_break_again_and_again_end_the_job(course: Course, job: MakeJob, tmp_path: Path):
    (tmp_path / "hesitates").touch()
    begun = time.monotonic()
    with pytest.raises(WorkerFailed, match=r"rank \d .*RuntimeError: "):
        course.run(
            job(collectives=6, timeout_s=0.5, schedule="damaged_schedules:hesitating_for_ever", elastic=True), {}
        )
    assert time.monotonic() - begun < 30


def test_a_wrong_element_ends_an_elastic_job_too(course: Course, job: MakeJob):
    with pytest.raises(WorkerFailed, match=r"elements are wrong"):
        course.run(job(schedule="damaged_schedules:misplaced", collectives=3, elastic=True), {})


def test_who_cannot_crash_or_come_back_is_said(client: WorkersClient, job: MakeJob):
    assert (client.crash("tokyo"), client.restart("tokyo")) == ([], [])  # no job is there
    client.start(job(collectives=1))
    with pytest.raises(WireError, match=r"no rank works in a DC of that name \(got 'tokio'\)"):
        client.crash("tokio")
    with pytest.raises(WireError, match="only in a job that is elastic"):
        client.restart("tokyo")
    assert client.run(lambda _: None)
    client.start(job(collectives=1, elastic=True))
    with pytest.raises(WireError, match="no rank of this DC is gone"):
        client.restart("tokyo")
    assert client.run(lambda _: None)
