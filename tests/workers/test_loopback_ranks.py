"""Real ranks over real gloo on loopback: what a client sees of runs, ring changes, faults and ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from loopback import HANGING_S, MakeJob, results, runner_that_knows

from topologies import wire
from workers.client import WorkerFailed, WorkersClient, launch
from workers.job import Agent, Every, Rank, job_to_json


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_every_collective_is_verified_and_recorded_in_order(client: WorkersClient, job: MakeJob):
    collectives, changes = results(client, job(collectives=4, implementations=("ring", "gloo"), warmup=2))
    assert [c["index"] for c in collectives] == [0, 1, 2, 3]
    assert [c["implementation"] for c in collectives] == ["ring", "gloo", "ring", "gloo"]
    assert all(c["verified"] for c in collectives)
    assert all(c["start"] <= c["rank_start"][r] <= c["rank_end"][r] <= c["end"] for c in collectives for r in range(4))
    assert all(before["end"] <= after["start"] for before, after in pairwise(collectives))
    assert changes == []


def test_all_ranks_switch_at_the_same_collective_over_more_than_twenty_epochs(client: WorkersClient, job: MakeJob):
    # given a policy that takes another ring each time, and a decision before every second collective
    collectives, changes = results(client, job(collectives=46, agent=Agent(every=2, policy="random"), seed=7))
    # then every collective was verified element by element, under an epoch that grew by one at each decision
    assert all(c["verified"] for c in collectives)
    assert [c["epoch"] for c in collectives] == [i // 2 for i in range(46)]
    assert [change["before_collective"] for change in changes] == list(range(2, 46, 2))
    # and the orders are what the decisions said
    for change in changes:
        before, after = collectives[change["before_collective"] - 1], collectives[change["before_collective"]]
        assert (before["order"], after["order"]) == (change["from"], change["to"])
        assert change["changed"]
        assert change["epoch"] == after["epoch"]
        assert change["ended_at"] <= after["end"]
        assert after["turn_start"] <= change["started_at"]


def test_the_same_seed_takes_the_same_rings(client: WorkersClient, job: MakeJob):
    plan = job(collectives=6, agent=Agent(every=1, policy="random"), seed=3)
    orders = [[c["order"] for c in results(client, plan)[0]] for _ in range(2)]
    assert orders[0] == orders[1]


def test_without_an_agent_the_listed_order_stays(client: WorkersClient, job: MakeJob):
    collectives, changes = results(client, job(collectives=3))
    assert [c["order"] for c in collectives] == [[0, 1, 2, 3]] * 3
    assert changes == []


def test_every_rank_computes_before_each_collective(client: WorkersClient, job: MakeJob):
    collectives, _ = results(client, job(collectives=3, compute_s=0.2))
    assert all(after["start"] - before["end"] >= 0.2 for before, after in pairwise(collectives))


def test_a_probe_measures_every_pair_in_both_directions_and_its_time_is_charged(client: WorkersClient, job: MakeJob):
    collectives, changes = results(client, job(collectives=2, agent=Agent(every=1)))
    (change,) = changes
    matrix = change["bandwidths"]
    assert all((matrix[a][b] > 0) == (a != b) for a in range(4) for b in range(4))
    assert change["probe_s"] > 0
    assert collectives[1]["agent_s"] >= change["probe_s"]
    assert collectives[0]["agent_s"] < collectives[1]["agent_s"]


@pytest.fixture
def runner_socket(tmp_path: Path) -> Iterator[Path]:
    """A runner that says: 0 → 2 → 1 → 3 → 0 runs at 50 Mbit/s, everything else at 10. Refuses the oracle."""
    matrix = [[10e6] * 4 for _ in range(4)]
    for a, b in ((0, 2), (2, 1), (1, 3), (3, 0)):
        matrix[a][b] = 50e6
    with runner_that_knows(
        tmp_path, {"feed": {"bandwidths": matrix}, "oracle": {"error": "the oracle is silent"}}
    ) as r:
        yield r


def test_the_agent_takes_the_best_ring_of_what_the_runner_knows(
    client: WorkersClient, job: MakeJob, runner_socket: Path
):
    agent = Agent(every=2, source="feed")
    collectives, changes = results(client, job(collectives=5, agent=agent, bandwidth_socket=str(runner_socket)))
    assert [c["order"] for c in collectives] == [[0, 1, 2, 3]] * 2 + [[0, 2, 1, 3]] * 3
    assert [change["changed"] for change in changes] == [True, False]
    assert changes[0]["predicted_gain"] == pytest.approx(4.0)
    assert changes[0]["source"] == "feed"


def test_measured_once_decides_before_the_first_collective_and_never_again(
    client: WorkersClient, job: MakeJob, runner_socket: Path
):
    plan = job(
        collectives=4,
        agent=Agent(source="feed"),
        initial_order="measured_once",
        bandwidth_socket=str(runner_socket),
    )
    collectives, changes = results(client, plan)
    assert [change["before_collective"] for change in changes] == [0]
    assert [c["order"] for c in collectives] == [[0, 2, 1, 3]] * 4


def test_a_run_begins_with_the_order_it_is_given(client: WorkersClient, job: MakeJob):
    collectives, changes = results(client, job(collectives=2, start_order=(0, 3, 1, 2)))
    assert changes == []
    assert [c["order"] for c in collectives] == [[0, 3, 1, 2]] * 2


def test_a_runner_that_does_not_know_ends_the_run_with_its_words(
    client: WorkersClient, job: MakeJob, runner_socket: Path
):
    client.start(job(collectives=4, agent=Agent(every=1, source="oracle"), bandwidth_socket=str(runner_socket)))
    with pytest.raises(WorkerFailed, match=r"rank 0 \(amsterdam\): the oracle is silent"):
        client.run(lambda _: None)


def test_paced_collectives_never_start_early(client: WorkersClient, job: MakeJob):
    start_at = time.monotonic() + 1.0
    collectives, _ = results(client, job(collectives=4, pacing=Every(0.1)), start_at=start_at)
    scheduled = [c["scheduled_start"] for c in collectives]
    assert scheduled == pytest.approx([start_at + 0.1 * i for i in range(4)])
    assert all(c["start"] >= c["scheduled_start"] for c in collectives)


def test_a_run_that_is_late_goes_on_at_once(client: WorkersClient, job: MakeJob):
    # given a start a minute ago and a collective every ten seconds
    start_at = time.monotonic() - 60.0
    begun = time.monotonic()
    collectives, _ = results(client, job(collectives=4, pacing=Every(10.0)), start_at=start_at)
    # then nobody waits for moments that have passed
    assert len(collectives) == 4
    assert time.monotonic() - begun < 10.0


def test_all_ranks_end_at_the_same_collective_when_the_time_is_up(client: WorkersClient, job: MakeJob):
    plan = job(collectives=10**6, duration_s=1.0)
    start_at = time.monotonic()
    collectives, _ = results(client, plan, start_at=start_at)
    assert all(c["start"] < start_at + HANGING_S and len(c["rank_end"]) == 4 for c in collectives)
    assert collectives[-2]["end"] < start_at + 1.0
    # and the launcher takes the next job
    assert len(results(client, job(collectives=2))[0]) == 2


@pytest.mark.parametrize(
    ("schedule", "who"),
    [("damaged_schedules:misplaced", r"rank 2 \(tokyo\)"), ("damaged_schedules:torn", r"rank \d .*")],
)
def test_a_damaged_element_is_caught_in_data_that_really_moved(
    client: WorkersClient, job: MakeJob, schedule: str, who: str
):
    said = rf"{who}: collective -?\d+, shard \d: \d+ of 65536 elements are wrong, first element \d+: expected .* got"
    with pytest.raises(WorkerFailed, match=said):
        results(client, job(schedule=schedule, collectives=3))


def test_a_schedule_with_a_bug_is_quoted(client: WorkersClient, job: MakeJob):
    with pytest.raises(WorkerFailed, match=r"rank \d \(.*\): KeyError: 'no such neighbour'(.|\n)*Traceback"):
        client.start(job(schedule="damaged_schedules:hasty"))


def test_a_policy_that_loses_a_rank_is_refused(client: WorkersClient, job: MakeJob):
    client.start(job(collectives=3, agent=Agent(every=1, policy="damaged_schedules:losing")))
    with pytest.raises(WorkerFailed, match=r"rank 0 \(amsterdam\): "):
        client.run(lambda _: None)


@pytest.mark.parametrize("when", ["idle", "in a collective"])
def test_a_rank_that_is_killed_is_named_at_once_and_nobody_is_left(client: WorkersClient, job: MakeJob, when: str):
    # given ranks that wait a minute for the next collective, or run one that is long
    pacing = {"pacing": Every(60.0)} if when == "idle" else {"size_bytes": 16 * 2**20}
    pids = client.start(job(collectives=1000, **pacing))["pids"]
    killed: list[float] = []

    def kill_after_the_first(event: dict[str, Any]) -> None:
        if event["index"] == 0:
            killed.append(time.monotonic())
            os.kill(pids[2], signal.SIGKILL)

    # when one is killed
    with pytest.raises(WorkerFailed, match=r"rank 2 \(tokyo\): was killed by SIGKILL(.|\n)*joined 4 ranks") as failure:
        client.run(kill_after_the_first)
    # then the message names it and its log, long before any timeout, and the others have ended
    assert time.monotonic() - killed[0] < 5.0
    assert failure.value.log.endswith("rank2.log")
    assert failure.value.exit_code == 4
    assert all(is_gone(pid) for pid in pids)


def test_a_rank_that_ends_on_its_own_is_a_failure_too(client: WorkersClient, job: MakeJob):
    with pytest.raises(WorkerFailed, match=r"rank \d .*: exited with status 3"):
        client.start(job(schedule="damaged_schedules:leaving"))


def test_stop_from_another_thread_ends_a_run(client: WorkersClient, job: MakeJob):
    pids = client.start(job(collectives=1000, pacing=Every(60.0)))["pids"]
    stopper = threading.Timer(0.2, client.stop)
    stopper.start()
    begun = time.monotonic()
    assert client.run(lambda _: None) is False
    assert time.monotonic() - begun < HANGING_S
    stopper.join()
    assert all(is_gone(pid) for pid in pids)
    client.stop()


def test_a_rank_that_dies_before_the_run_is_named_by_the_run(client: WorkersClient, job: MakeJob):
    pids = client.start(job())["pids"]
    ends = [os.pidfd_open(pid) for pid in pids]
    os.kill(pids[3], signal.SIGKILL)
    for end in ends:
        assert select.select([end], [], [], HANGING_S)[0]
        os.close(end)
    with pytest.raises(WorkerFailed, match=r"rank 3 \(iowa\): was killed by SIGKILL"):
        client.run(lambda _: None)
    # and the same client may start again
    client.start(job(collectives=1))
    assert client.run(lambda _: None)


def test_a_run_after_stop_says_that_it_was_stopped(client: WorkersClient, job: MakeJob):
    client.start(job())
    client.stop()
    assert client.run(lambda _: None) is False


def test_a_frozen_rank_does_not_hinder_the_end(client: WorkersClient, job: MakeJob):
    pids = client.start(job())["pids"]
    os.kill(pids[1], signal.SIGSTOP)
    client.stop()
    assert all(is_gone(pid) for pid in pids)


def test_a_client_that_leaves_takes_its_ranks_along(launcher_socket: Path, job: MakeJob):
    with WorkersClient(launcher_socket) as leaving:
        pids = leaving.start(job())["pids"]
        ends = [os.pidfd_open(pid) for pid in pids]
    for end in ends:
        assert select.select([end], [], [], HANGING_S)[0]
        os.close(end)


def test_the_launcher_refuses_a_second_job_and_a_run_of_nothing(
    client: WorkersClient, launcher_socket: Path, job: MakeJob
):
    client.start(job(collectives=2))
    with WorkersClient(launcher_socket) as other:
        with pytest.raises(wire.WireError, match="a job is there already"):
            other.start(job())
        with pytest.raises(wire.WireError, match="no job of yours"):
            other.run(lambda _: None)
    # and the first one is unharmed
    assert client.run(lambda _: None)


def test_a_dc_whose_network_is_gone_is_named(client: WorkersClient, job: MakeJob):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ranks = (Rank("here"), Rank("nowhere", gone.pid))
    with pytest.raises(WorkerFailed, match=r"rank 1 \(nowhere\): the DC's process \d+ is not there"):
        client.start(job(ranks=ranks))


def test_the_launcher_and_its_ranks_end_with_the_process_that_started_them(tmp_path: Path, job: MakeJob):
    # given a runner in its own process, with a job that lasts
    runner = """
import sys
from itertools import pairwise
from pathlib import Path
from workers.client import WorkersClient, launch
from workers.job import job_from_json
import json
folder = Path(sys.argv[1])
launcher = launch(folder / "l.sock", folder / "l.log")
client = WorkersClient(folder / "l.sock")
pids = client.start(job_from_json(json.loads(sys.argv[2])))["pids"]
print(json.dumps([launcher.pid, *pids]), flush=True)
client.run(lambda event: None)
"""
    plan = json.dumps(job_to_json(job(pacing=Every(60.0), collectives=9)))
    process = subprocess.Popen([sys.executable, "-c", runner, str(tmp_path), plan], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    ends = [os.pidfd_open(pid) for pid in json.loads(process.stdout.readline())]
    # when it is killed
    process.kill()
    process.wait()
    # then all of them end
    for end in ends:
        assert select.select([end], [], [], HANGING_S)[0]
        os.close(end)


def test_a_machine_without_torch_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: MakeJob):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch is not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = launch(tmp_path / "l.sock", tmp_path / "l.log")
    with pytest.raises(wire.WireError), WorkersClient(tmp_path / "l.sock") as client:
        client.start(job())
    assert process.wait(HANGING_S) == 1
    log = (tmp_path / "l.log").read_text()
    assert log == "error: torch cannot be imported: libtorch is not here\n  remedy: run scripts/setup\n"
