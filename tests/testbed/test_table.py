"""Reports from a run folder alone: figures, the table, what is said of runs that are cut off or not to be trusted."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from synthetic import make_run

from testbed.fidelity import Verdict
from testbed.report.make import make_report
from testbed.report.records import read_runs
from testbed.report.summary import summarize
from testbed.report.table import TEXT_WIDTH, print_summary, summary_text
from testbed.runfolder import GATE, open_run
from topologies.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", blocks=6)


@pytest.fixture(scope="module")
def summary(folder):
    return summarize(folder, read_runs(folder))


def column(text, arm):
    return next(line for line in text.splitlines() if line.startswith(f"{arm} ")).split("  ")


def test_every_arm_has_its_row_and_the_winner_its_sentence(summary):
    text = summary_text(summary)

    assert [arm for arm in ("static", "wan", "ccl", "joint") if not column(text, arm)] == []
    assert "joint is 1." in text
    assert "× faster than static" in text
    assert "95% intervals over 6 blocks" in text
    assert "NOT TRUSTWORTHY" not in text
    assert max(map(len, text.splitlines())) <= TEXT_WIDTH


def test_what_a_reader_has_to_know_stands_below_the_table(summary):
    text = summary_text(summary)

    assert "made up for a test" in text
    assert "capacity: feed, delay 0 s" in text


def test_counts_come_from_the_records(folder, summary):
    joint = summary.arms["joint"]

    assert joint.blocks == 6
    assert joint.collectives == 6 * 20
    assert joint.ring_changes_considered == 6 * 4
    assert joint.moves == joint.reconfigurations
    assert summary.arms["static"].reconfigurations == 0
    assert summary.arms["static"].agent_s == 0
    assert joint.agent_s == pytest.approx(6 * 4 * 0.05)
    assert joint.reaction_median_s == pytest.approx(0.01)


def test_a_run_that_is_not_trustworthy_says_so_first(folder, summary):
    doubted = replace(summary, trustworthy=False, reasons=("before the arms: tokyo → oregon carries half",))

    text = summary_text(doubted)

    assert text.lstrip("╭─ ").startswith("NOT TRUSTWORTHY")
    assert "tokyo → oregon carries half" in text
    assert doubted.exit_code == 3
    assert summary.exit_code == 0


def test_a_narrow_terminal_gets_the_columns_that_decide(summary):
    console = Console(file=io.StringIO(), width=80, color_system=None)

    print_summary(summary, console)

    text = console.file.getvalue()
    assert "charged" in text
    assert "p99" not in text
    assert column(text, "joint")


def test_the_report_is_made_again_from_the_records_alone(folder):
    first = make_report(folder.path)
    for name in ("summary.json", "summary.txt", "completion_time.png", "distribution.png"):
        (folder.path / name).unlink()

    assert make_report(folder.path) == first
    plain = json.loads((folder.path / "summary.json").read_text())
    assert plain["format"] == 1
    assert plain["arms"]["joint"]["median_s"] == first.arms["joint"].median_s
    assert plain["comparisons"][-1]["arm"] == "joint"
    assert (folder.path / "summary.txt").read_text() == summary_text(first)


def test_the_verdict_follows_from_gate_and_arms(tmp_path):
    folder = make_run(tmp_path / "run", blocks=1)
    folder.write_json(GATE, Verdict(False, ("a → b carries half",)))

    summary = make_report(folder.path)

    assert not summary.trustworthy
    assert summary.reasons == ("before the arms: a → b carries half",)
    for plain in (json.loads((folder.path / "summary.json").read_text())["conclusion"], summary_text(summary)):
        assert "This run is not to be trusted; taken at face value, joint " in plain
    assert summary.interaction_sentence.startswith("Taken at face value: whether ")


def test_a_run_whose_gate_left_nothing_is_not_trusted(tmp_path):
    folder = make_run(tmp_path / "run", blocks=1)
    (folder.path / GATE).unlink()

    assert make_report(folder.path).reasons == ("before the arms: the fidelity gate left no verdict",)


def test_an_arm_that_did_not_keep_up_is_named(tmp_path):
    folder = make_run(tmp_path / "run", blocks=1)
    lines = folder.read_arms()
    lines[1]["verdict"] = {"trustworthy": False, "reasons": ["no idle CPU"], "figures": {}}
    (folder.path / "arms.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert make_report(folder.path).reasons == (f"block 1, {lines[1]['arm']}: no idle CPU",)


def test_of_a_run_that_was_cut_off_the_finished_arms_count(tmp_path):
    folder = make_run(tmp_path / "run", blocks=2)
    lines = (folder.path / "arms.jsonl").read_text().splitlines(keepends=True)
    (folder.path / "arms.jsonl").write_text("".join(lines[:-1]) + lines[-1][:20])
    cut_off = json.loads(lines[-1])["arm"]

    summary = make_report(folder.path)

    assert summary.arms[cut_off].blocks == 1
    assert summary.blocks_finished == 1
    assert "1 of 2 blocks are complete" in summary.notes
    assert f"{cut_off} of block 2 is not finished (running or cut off): left out of every figure" in summary.notes


def test_a_run_without_a_finished_arm_has_a_report_that_says_so(tmp_path):
    folder = make_run(tmp_path / "run", blocks=1)
    (folder.path / "arms.jsonl").unlink()

    summary = make_report(folder.path)

    assert summary.arms == {}
    assert summary.conclusion == "No arm is finished: there is nothing to compare."
    assert (folder.path / "completion_time.png").exists()


def test_a_run_of_some_arms_alone_has_no_ratio_to_static(tmp_path):
    folder = make_run(tmp_path / "run", blocks=1, arms=["joint", "wan"])

    summary = make_report(folder.path)

    assert [(c.arm, c.against) for c in summary.comparisons] == [("joint", "wan")]
    assert column(summary_text(summary), "joint")


def test_routine_moves_between_arms_are_not_the_loops_work(tmp_path):
    folder = make_run(tmp_path / "run", blocks=1)
    before = make_report(folder.path).arms["wan"].reconfigurations
    moves = [{"pair": ["a", "b"], "from": ["a", "b"], "to": ["a", "c", "b"]}]
    times = {"happened_at": 1.0, "seen_at": 1.0, "decided_at": 1.0, "installed_at": None}
    for cause in ("reset", "pin"):
        folder.append(1, "wan", "reconfigurations", {"cause": cause, "moves": moves, **times})
    folder.append(1, "wan", "reconfigurations", {"cause": "period", "moves": [], **times})
    folder.append(1, "wan", "reconfigurations", {"cause": "port_status", "moves": moves, **times})

    assert make_report(open_run(folder.path).path).arms["wan"].reconfigurations == before + 1


def test_what_is_no_run_has_no_report(tmp_path):
    with pytest.raises(InputError, match="not a run folder"):
        make_report(tmp_path)
