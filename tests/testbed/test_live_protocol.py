"""What a live testbed tells and what can be asked of it, as values: no socket, no network."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from testbed.live import requests
from testbed.live.hub import MAX_WAITING, Hub
from testbed.live.protocol import (
    EVENTS,
    Collective,
    CollectiveEvent,
    Control,
    EdgeState,
    FaultEvent,
    LinkInfo,
    Move,
    RatesEvent,
    ReconfigurationEvent,
    Ring,
    Route,
    SiteInfo,
    Snapshot,
    TraceState,
    Workers,
    event_from_json,
    from_json,
    to_json,
)
from testbed.live.rendering import render
from testbed.live.scenario import CHANGES, load_scenario
from testbed.live.tracing import read_trace
from topologies.builtins import builtin
from topologies.errors import InputError

ROOT = Path(__file__).parents[2]


def collective(number, time_s=0.5, limit_s=0.25):
    return Collective(number, "wan", 10.0, 10.0 + time_s, time_s, limit_s, 0.0, ("a", "b"), 1024, True)


def snapshot(**changed):
    edge = EdgeState("a-b", "a", "b", 50e6, 100e6, 0.0, 0.0, 0.0, True, False, 25e6, 9000, 3)
    down = EdgeState("a-b", "b", "a", 100e6, 100e6, 0.02, 0.0, 0.01, False, False, 0.0, 0, 0)
    plain = {
        "protocol": 1,
        "seq": 7,
        "now": 100.0,
        "run_id": "k3f9",
        "pid": 4711,
        "started": "2026-01-02 03:04:05",
        "wan": "two",
        "sites": (SiteInfo("a", "dc", 1.0, 2.0), SiteInfo("b", "dc")),
        "wan_links": (LinkInfo("a-b", "a", "b"),),
        "links": (edge, down),
        "routes": (Route("a", "b", ("a", "b"), True), Route("b", "a", ("b", "a"), False)),
        "ring": Ring(("a", "b"), 2, True),
        "control": Control("joint", "widest", 0.5, 4),
        "workers": Workers("running", ("a", "b"), (), 2**20, None),
        "trace": TraceState(False, None),
        "collectives": (collective(1), collective(2, limit_s=None)),
        "log": (),
    }
    return Snapshot(**(plain | changed))


def test_a_snapshot_comes_back_from_json_as_it_was():
    assert from_json(Snapshot, json.loads(json.dumps(to_json(snapshot())))) == snapshot()


def test_an_event_comes_back_as_it_was_and_names_its_kind():
    moves = (Move("a", "b", ("a", "b"), ("a", "c", "b")),)
    event = ReconfigurationEvent(3, 1.5, "one pair", 1, "port_status", 1.0, 1.1, 1.2, None, None, moves)
    plain = json.loads(json.dumps(to_json(event)))
    assert plain["event"] == "reconfiguration"
    assert event_from_json(plain) == event


def test_what_a_later_testbed_tells_more_does_no_harm():
    plain = to_json(FaultEvent(1, 2.0, "x", "fail", ("a-b",))) | {"colour": "red"}
    assert event_from_json(plain) == FaultEvent(1, 2.0, "x", "fail", ("a-b",))
    assert event_from_json(plain | {"event": "earthquake"}) is None


def test_every_kind_of_event_and_request_is_documented():
    text = (ROOT / "docs" / "live.md").read_text()
    assert [name for name in (*EVENTS, *requests.KINDS) if f"`{name}`" not in text] == []
    assert [f.name for f in fields(Snapshot) if f"`{f.name}`" not in text] == []


def test_events_are_numbered_and_the_log_leaves_out_what_always_moves():
    hub = Hub()
    subscriber, before = hub.subscribe()
    hub.publish(FaultEvent, "tokyo-oregon is down", what="fail", targets=("tokyo-oregon",))
    hub.publish(RatesEvent, "", rates=())
    hub.publish(CollectiveEvent, "collective 1", collective=collective(1))
    recent = hub.recent()
    assert (before["seq"], recent["seq"]) == (0, 3)
    assert [entry.text for entry in recent["log"]] == ["tokyo-oregon is down"]
    assert [c.number for c in recent["collectives"]] == [1]
    assert [json.loads(subscriber.next())["seq"] for _ in range(3)] == [1, 2, 3]


def test_a_subscriber_that_does_not_read_is_cut_off_and_costs_no_more():
    hub = Hub()
    subscriber, _ = hub.subscribe()
    for _ in range(MAX_WAITING + 10):
        hub.publish(RatesEvent, "", rates=())
    assert not hub.has_listeners
    heard = 0
    while subscriber.next() is not None:
        heard += 1
    assert heard == MAX_WAITING


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"op": "fial"}, "did you mean 'fail'"),
        ({}, "give op"),
        ({"op": "fail"}, "add link"),
        ({"op": "fail", "link": "a-b", "hard": True}, "unknown key 'hard'"),
        ({"op": "shape", "link": "a-b"}, "give a rate"),
        ({"op": "shape", "link": "a-b", "rate": "20mbt"}, "as in 100mbit"),
        ({"op": "shape", "link": "a-b", "loss": 1.5}, "from 0 to below 1"),
        ({"op": "flap", "link": "a-b", "period": "1ms"}, "0.1"),
        ({"op": "heal", "link": "a-b", "site": "a"}, "leave one of them out"),
        ({"op": "reorder", "every": -1}, "greater than or equal to 0"),
        ({"op": "reorder", "every": True}, "whole number"),
        ({"op": "arm", "arm": "join"}, "did you mean 'joint'"),
        ({"op": "t_wan", "period": 0}, "above zero"),
        ({"op": "ring", "order": ["a"]}, "2"),
    ],
)
def test_a_request_that_is_none_is_refused_with_a_remedy(plain, message):
    with pytest.raises(InputError) as refused:
        requests.read_request(plain)
    assert message in str(refused.value)


def test_status_shows_load_queues_faults_and_the_limit():
    lines = render(snapshot())
    assert any("a → b" in line and "50 Mbit/s" in line and "25 Mbit/s" in line and "50%" in line for line in lines)
    assert any("b → a" in line and "DOWN" in line and "20 ms" in line and "loss 1 %" in line for line in lines)
    assert any("500 ms" in line and "250 ms" in line and "50%" in line for line in lines)
    assert any("cut off" in line for line in lines)
    assert any("ring: a → b" in line and "changed 2 times, pinned" in line for line in lines)


def test_the_tour_is_a_scenario():
    tour = load_scenario(ROOT / "testbed" / "live" / "tour.yaml")
    wan = builtin("six")
    for step in tour.steps:
        if step.request and "link" in step.request:
            wan.link(step.request["link"])
    assert tour.steps[-1].at_s <= 90


def test_a_scenario_with_faults_names_file_line_and_remedy(tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text(
        "steps:\n"
        "  - {at: 1s, op: fial, link: a-b}\n"
        "  - {op: fail, link: a-b}\n"
        "  - {at: -1s, op: heal}\n"
        "  - {at: 2s, op: shape, link: a-b, rate: fast}\n"
        "  - {at: 2s, op: down}\n"
    )
    with pytest.raises(InputError) as refused:
        load_scenario(file)
    said = str(refused.value)
    assert all(f"bad.yaml:{line}: steps[{line - 2}]" in said for line in range(2, 7))
    assert "did you mean 'fail'" in said and "add at: 5s" in said and "not negative" in said


def test_steps_are_played_by_time_and_a_trace_is_found_beside_the_scenario(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("steps:\n  - {at: 2s, op: heal}\n  - {at: 1s, op: trace, action: start, trace: rates.csv}\n")
    steps = load_scenario(file).steps
    assert [step.at_s for step in steps] == [1.0, 2.0]
    assert steps[0].request["trace"] == str(tmp_path / "rates.csv")
    assert "down" not in CHANGES


def test_a_trace_that_is_written_out_in_a_scenario_is_no_file_but_the_file_it_names_is_beside_the_scenario(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(
        "steps:\n"
        "  - {at: 0s, op: trace, action: start, trace: constant}\n"
        "  - {at: 1s, op: trace, action: start, trace: {kind: file, path: rates.csv}}\n"
    )
    constant, named = (step.request["trace"] for step in load_scenario(file).steps)
    assert constant == "constant"
    assert named == {"kind": "file", "path": str(tmp_path / "rates.csv")}


def test_who_writes_a_trace_out_elsewhere_names_whole_paths(tmp_path):
    wan = builtin("mesh4")
    for given in ({"kind": "file", "path": "r.csv"}, "{kind: file, path: r.csv}"):
        with pytest.raises(InputError, match="whole path"):
            read_trace(given, wan, seed=1, elsewhere=True)
    (tmp_path / "r.csv").write_text("time,link,rate\n0,tokyo-oregon,40mbit\n")
    assert read_trace({"kind": "file", "path": str(tmp_path / "r.csv")}, wan, seed=1, elsewhere=True).instants


def test_a_trace_is_given_as_a_file_an_experiment_or_in_a_line(tmp_path):
    wan = builtin("mesh4")
    (tmp_path / "r.csv").write_text("time,link,rate\n0,tokyo-oregon,40mbit\n5,tokyo-oregon,50mbit\n")
    played = read_trace(str(tmp_path / "r.csv"), wan, seed=1)
    assert [i.at_s for i in played.instants] == [0.0, 5.0] and played.again_s is None
    assert played.instants[1].rates_bps == {("tokyo", "oregon"): 50e6, ("oregon", "tokyo"): 50e6}
    inline = read_trace("{kind: redraw, every: 2s, low: 10mbit, high: 60mbit}", wan, seed=1)
    # 12 directed edges: 20,000 // 12 = 1,666 rounds of 2 s, and then it begins again
    assert inline.again_s == 3332.0 and len(inline.instants) == 1666
    assert read_trace(str(ROOT / "experiments" / "quickstart.yaml"), wan, seed=1).name == "quickstart.yaml"
    with pytest.raises(InputError, match="did you mean 'tokyo-oregon'"):
        read_trace({"kind": "redraw", "every": 1, "low": 1e6, "high": 2e6, "links": "tokyo-oregn"}, wan, seed=1)
