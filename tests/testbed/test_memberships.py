"""What a report says about DCs that left and came back, from records as a run leaves them."""

from __future__ import annotations

from synthetic import make_run

from testbed.report.make import make_report
from testbed.report.memberships import membership_notes
from testbed.report.records import read_runs

KILLED = "was killed by SIGKILL"


def membership(at: float, pause_s: float, left=(), joined=(), broken=None) -> dict:
    return {
        "event": "membership",
        "left": [{"rank": 0, "dc": dc, "why": KILLED, "at": at} for dc in left],
        "joined": [{"rank": 0, "dc": dc, "at": at} for dc in joined],
        "broken": broken,
        "at": at,
        "pause_s": pause_s,
    }


def test_a_run_in_which_nobody_left_says_nothing(tmp_path):
    assert membership_notes(read_runs(make_run(tmp_path / "run", blocks=1))) == []


def test_the_summary_names_who_left_why_where_and_for_how_long_all_stood_still(tmp_path):
    folder = make_run(tmp_path / "run", blocks=1, arms=["static", "joint"])
    folder.append(1, "static", "memberships", membership(5010.0, 0.25, left=["tokyo"]))
    folder.append(1, "static", "memberships", membership(5020.0, 0.125, joined=["tokyo"]))
    folder.append(1, "joint", "memberships", membership(5110.0, 0.5, left=["tokyo"]))
    folder.append(1, "joint", "memberships", membership(5120.0, 1.0, broken="rank 1 (oregon): timed out"))
    folder.close()

    notes = [note for note in make_report(folder.path).notes if "made up" not in note]

    assert notes[:3] == [
        f"tokyo left, its worker {KILLED}: 2 times, in static, joint; "
        "the next collective could begin 0.38 s later in the median, 0.50 s at most",
        "tokyo came back: 1 time, in static; the next collective could begin 0.12 s later",
        "connections were made anew: 1 time, in joint; the first time: rank 1 (oregon): timed out",
    ]
    assert any("busbw counts all DCs" in note for note in notes)
    assert "tokyo left" in (folder.path / "summary.txt").read_text()


def test_the_agents_time_in_a_collective_that_began_again_is_not_charged_twice(tmp_path):
    # given two decisions before one collective: 0.1 s before it began, 0.2 s after it had been interrupted
    folder = make_run(tmp_path / "run", blocks=1, arms=["static"])
    (run,) = read_runs(folder)
    start = run.collectives[3].start
    for begun, ended in ((start - 0.1, start), (start + 0.5, start + 0.7)):
        times = {"started_at": begun, "ended_at": ended}
        folder.append(1, "static", "ring_changes", {"before_collective": 3, "changed": False, **times})
    folder.close()

    (run,) = read_runs(folder)

    assert round(run.collectives[3].agent_s, 6) == 0.1
