"""`ringroad run` end to end: real Mininet, Open vSwitch, controller and gloo workers, from a file to a run folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.emulated

SHORT = Path(__file__).parents[2] / "experiments" / "short.yaml"
ARMS = {"static", "wan", "ccl", "joint"}


def ringroad(*arguments, timeout_s=240):
    command = [sys.executable, "-m", "testbed.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "short"
    done = ringroad("run", SHORT, "--out", folder, "--json")
    assert done.returncode in (0, 3), done.stderr
    return done, folder


def test_every_arm_runs_and_the_summary_on_stdout_is_that_of_the_folder(run):
    done, folder = run
    summary = json.loads(done.stdout)
    assert set(summary["arms"]) == ARMS
    assert summary == json.loads((folder / "summary.json").read_text())
    assert {line["arm"] for line in lines(folder / "arms.jsonl")} == ARMS


def test_the_exit_code_and_the_verdict_follow_from_what_the_gate_and_the_arms_measured(run):
    done, folder = run
    gate = json.loads((folder / "gate.json").read_text())
    tolerance = yaml.safe_load((folder / "experiment.yaml").read_text()).get("tolerance", {})
    low, high = tolerance.get("goodput_min", 0.95), tolerance.get("goodput_max", 1.02)
    ratios = [link["goodput_bps"] / link["set_bps"] for link in gate["figures"]["goodputs"]]
    assert len(ratios) == 12
    others = [reason for reason in gate["reasons"] if "carries" not in reason]
    assert gate["trustworthy"] == (all(low <= ratio <= high for ratio in ratios) and not others)
    assert len(gate["figures"]["edges"]) == 12
    verdicts = [gate["trustworthy"], *(line["verdict"]["trustworthy"] for line in lines(folder / "arms.jsonl"))]
    assert json.loads(done.stdout)["trustworthy"] == all(verdicts)
    assert done.returncode == (0 if all(verdicts) else 3)


def test_every_collective_is_verified_and_none_is_faster_than_the_links_allow(run):
    _, folder = run
    for arm in ARMS:
        collectives = lines(folder / "blocks" / "1" / arm / "collectives.jsonl")
        assert [collective["index"] for collective in collectives] == list(range(12))
        for collective in collectives:
            assert collective["verified"]
            assert collective["end"] - collective["start"] > 0.98 * collective["limit_s"]
            assert 0 < collective["limit_fraction"] < 1 / 0.98


def test_all_arms_of_a_block_see_the_same_history_of_the_wan(run):
    _, folder = run
    histories = [
        [(change["planned_s"], change["rates"]) for change in lines(folder / "blocks" / "1" / arm / "changes.jsonl")]
        for arm in ARMS
    ]
    shortest = min(map(len, histories))
    assert shortest >= 1
    assert all(history[:shortest] == histories[0][:shortest] for history in histories)


def test_only_the_arms_with_a_wan_controller_move_paths(run):
    _, folder = run
    moved = {
        arm: [
            event
            for event in lines(folder / "blocks" / "1" / arm / "reconfigurations.jsonl")
            if event["cause"] not in ("reset", "pin")
        ]
        for arm in ARMS
    }
    assert moved["static"] == moved["ccl"] == []
    for event in moved["wan"] + moved["joint"]:
        assert event["happened_at"] <= event["seen_at"] <= event["decided_at"]
        assert event["installed_at"] is None or event["decided_at"] <= event["installed_at"]
        assert all(move["from"] != move["to"] for move in event["moves"])


def test_only_the_arms_with_a_ring_agent_measure_and_what_it_took_is_on_record(run):
    _, folder = run
    considered = {arm: lines(folder / "blocks" / "1" / arm / "ring_changes.jsonl") for arm in ARMS}
    assert considered["static"] == considered["wan"] == []
    for arm in ("ccl", "joint"):
        assert [event["before_collective"] for event in considered[arm]] == [4, 8]
        assert all(event["ended_at"] > event["started_at"] for event in considered[arm])
        assert all(event["rate_bps"] > 0 and event["limit_bps"] > 0 for event in considered[arm])


def test_a_report_made_again_says_the_same(run):
    done, folder = run
    pictures = ("completion_time.png", "distribution.png")
    for name in (*pictures, "summary.json", "summary.txt"):
        (folder / name).unlink()
    again = ringroad("report", folder, "--json")
    assert json.loads(again.stdout) == json.loads(done.stdout)
    assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in pictures)


def test_a_link_that_goes_down_stops_the_static_arm_until_it_heals_and_the_wan_arm_hardly(tmp_path):
    # given a ring whose path from a to b is down for 4 s, and 12 collectives of about 0.3 s
    experiment = {
        "name": "a link goes down",
        "wan": "mesh4",
        "trace": {"kind": "constant", "rate": "20mbit"},
        "faults": [{"kind": "down", "link": "frankfurt-oregon", "at": "500ms", "for": "4s"}],
        "arms": ["static", "wan"],
        "blocks": 1,
        "payload": "256KiB",
        "collectives": 12,
        "seed": 1,
    }
    file = tmp_path / "down.yaml"
    file.write_text(yaml.safe_dump(experiment))
    # when
    done = ringroad("run", file, "--out", tmp_path / "run")
    # then
    assert done.returncode in (0, 3), done.stderr
    longest = {
        arm: max(c["end"] - c["start"] for c in lines(tmp_path / "run" / "blocks" / "1" / arm / "collectives.jsonl"))
        for arm in ("static", "wan")
    }
    assert longest["static"] > 3.0
    assert longest["wan"] < longest["static"] - 1.0
    causes = [e["cause"] for e in lines(tmp_path / "run" / "blocks" / "1" / "wan" / "reconfigurations.jsonl")]
    assert "port_status" in causes
    states = [e["state"] for e in lines(tmp_path / "run" / "blocks" / "1" / "static" / "faults.jsonl")]
    assert states == ["down", "up"]


def test_an_order_that_is_measured_once_is_the_same_in_every_arm_and_schedules_are_the_agents(tmp_path):
    # given a WAN on which the listed ring has a slow edge both ways, and one without it is there
    experiment = {
        "name": "measured once",
        "wan": "mesh4",
        "trace": {"kind": "steps", "steps": [{"at": 0, "link": "frankfurt-oregon", "rate": "10mbit"}]},
        "initial_order": "measured_once",
        "agent": {"source": "probe", "schedule": "trees"},
        "arms": ["static", "joint"],
        "blocks": 1,
        "payload": "256KiB",
        "collectives": 4,
        "reorder_every": 3,
        "seed": 1,
    }
    file = tmp_path / "measured.yaml"
    file.write_text(yaml.safe_dump(experiment))
    # when
    done = ringroad("run", file, "--out", tmp_path / "run")
    # then
    assert done.returncode in (0, 3), done.stderr
    (start,) = lines(tmp_path / "run" / "start_orders.jsonl")
    records = {arm: lines(tmp_path / "run" / "blocks" / "1" / arm / "collectives.jsonl") for arm in ("static", "joint")}
    assert [collectives[0]["order"] for collectives in records.values()] == [start["to"], start["to"]]
    neighbors = set(zip(start["to"], start["to"][1:] + start["to"][:1], strict=True))
    frankfurt, oregon = 0, 1
    assert not neighbors & {(frankfurt, oregon), (oregon, frankfurt)}
    assert start["probe_s"] > 0
    # and a schedule that is planned for links is that of the arm with an agent to plan it
    assert {collective["schedule"] for collective in records["static"]} == {"ring"}
    assert {collective["schedule"] for collective in records["joint"]} == {"trees"}
