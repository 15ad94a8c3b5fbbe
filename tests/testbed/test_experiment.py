"""Experiment files: what they mean, and that whatever is wrong in them is said before anything starts."""

import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.calm import CalmSettings
from testbed.experiment import blocks_plan, load_experiment, read_experiment, schema
from testbed.experimentfile import ExperimentSpec
from testbed.feed import FeedSettings
from topologies.errors import InputError

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
LEAST = {"name": "least", "wan": "mesh4", "payload": "1MiB", "collectives": 20}


def read(folder=Path("/nowhere"), memory_bytes=2**33, **keys):
    return read_experiment(yaml.safe_dump({**LEAST, **keys}), Path(folder) / "x.yaml", memory_bytes)


def refused(**keys) -> InputError:
    with pytest.raises(InputError) as caught:
        read(**keys)
    return caught.value


def test_the_least_file_has_a_default_for_everything_else():
    experiment = read()

    assert [arm.name for arm in experiment.arms] == ["static", "wan", "ccl", "joint"]
    assert experiment.size_bytes == 2**20
    assert experiment.every_s is None
    assert experiment.agent.source == "probe"
    assert experiment.controller.feed.delay_s == 0
    assert experiment.initial_order == "listed"


def test_arms_differ_in_the_two_loops_alone():
    arms = {arm.name: (arm.wan_policy, arm.reorder_every) for arm in read(reorder_every=7).arms}

    assert arms == {
        "static": ("shortest", 0),
        "wan": ("widest", 0),
        "ccl": ("shortest", 7),
        "joint": ("widest", 7),
    }


def test_units_are_read():
    experiment = read(
        pacing={"every": "2s"}, t_wan="250ms", feed={"delay": "1s"}, timeouts={"collective": "1min"}, payload="64KB"
    )

    assert experiment.every_s == 2
    assert experiment.controller.period_s == 0.25
    assert experiment.controller.feed.delay_s == 1
    assert experiment.timeouts.collective_s == 60
    assert experiment.size_bytes == 64_000


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_experiment_that_comes_along_is_right(file):
    experiment = load_experiment(file)

    assert experiment.name == file.stem
    assert experiment.text == file.read_text()


def test_a_paced_arm_takes_exactly_its_collectives():
    assert read(pacing={"every": "1.5s"}).expected_arm_s == 20 * 1.5


def test_an_arm_back_to_back_is_estimated_from_the_ring_over_constant_links():
    # mesh4 at 100 Mbit/s, 4 DCs, 1 MiB: every ring edge carries 3 shards, each over a link of its own.
    assert read().expected_arm_s == pytest.approx(20 * 3 * 8 * 2**20 / 100e6)


def test_the_time_that_stands_for_the_accelerators_work_counts_before_each_collective():
    ring_s = 3 * 8 * 2**20 / 100e6

    assert read(compute="250ms").expected_arm_s == pytest.approx(20 * (0.25 + ring_s))
    assert read(compute="2s", pacing={"every": "1.5s"}).expected_arm_s == 20 * 2
    assert "after 0.25 s that stand for the accelerators' work" in " ".join(read(compute="250ms").labels())


def test_an_arm_over_changing_links_is_estimated_from_how_many_collectives_fit():
    # 10 s at 100 Mbit/s, then 590 s at 50 Mbit/s: on average (10 · 100 + 590 · 50) / 600 = 50.83 Mbit/s.
    links = [{"at": "10s", "link": link, "rate": "50mbit"} for link in ("*",)]

    expected_s = read(trace={"kind": "steps", "steps": links}).expected_arm_s

    assert expected_s == pytest.approx(20 * 3 * 8 * 2**20 / 50.8333e6, rel=1e-4)


def test_the_plan_has_every_arm_in_every_block_and_is_the_same_again():
    experiment = read(blocks=6)

    plan = blocks_plan(experiment)

    assert [block.block for block in plan] == [1, 2, 3, 4, 5, 6]
    assert all(sorted(arm.name for arm in block.arms) == ["ccl", "joint", "static", "wan"] for block in plan)
    assert len({block.seed for block in plan}) == 6
    assert len({tuple(arm.name for arm in block.arms) for block in plan}) > 1
    assert plan == blocks_plan(read(blocks=6))
    assert plan[:2] == blocks_plan(experiment.overridden(blocks=2))


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_another_seed_gives_other_blocks_and_never_loses_an_arm(seed):
    plan = blocks_plan(read(seed=seed, blocks=2))

    assert plan[0].seed != plan[1].seed
    assert all(len(set(block.arms)) == 4 for block in plan)


def test_the_timeline_of_a_block_depends_on_its_seed_alone():
    experiment = read(trace={"kind": "redraw", "every": "5s", "low": "10mbit", "high": "50mbit"})

    assert experiment.timeline(7) == experiment.timeline(7)
    assert experiment.timeline(7) != experiment.timeline(8)
    assert experiment.timeline(7)[-1].at_s < experiment.timeouts.arm_s


def test_faults_are_part_of_the_timeline():
    experiment = read(faults=[{"at": "1s", "kind": "down", "link": "oregon-tokyo", "for": "2s"}])

    assert [(i.at_s, dict(i.links)) for i in experiment.timeline(1)] == [
        (1.0, {"tokyo-oregon": "down"}),
        (3.0, {"tokyo-oregon": "up"}),
    ]


def test_some_arms_and_other_counts_of_blocks_can_be_chosen():
    chosen = read().overridden(blocks=2, arms=["joint", "static", "joint"])

    assert chosen.blocks == 2
    assert [arm.name for arm in chosen.arms] == ["joint", "static"]


@pytest.mark.parametrize("choice", [{"arms": ["joiny"]}, {"blocks": 0}], ids=["arm", "blocks"])
def test_a_choice_that_cannot_be_is_refused(choice):
    with pytest.raises(InputError):
        read().overridden(**choice)


def test_a_wan_file_is_looked_for_beside_the_experiment(tmp_path):
    wan = {"name": "two", "sites": [{"name": "Zürich Süd"}, {"name": "b"}]}
    wan["links"] = [{"between": ["Zürich Süd", "b"], "rate": "10mbit"}]
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(wan, allow_unicode=True))

    assert read(folder=tmp_path, wan="two.yaml").wan.dcs == ("Zürich Süd", "b")
    assert read(wan=wan).wan.dcs == ("Zürich Süd", "b")


def test_a_trace_file_is_looked_for_beside_the_experiment(tmp_path):
    (tmp_path / "trace.csv").write_text("time,link,rate\n0,tokyo-oregon,20mbit\n100,tokyo-oregon,30mbit\n")

    experiment = read(folder=tmp_path, trace={"kind": "file", "path": "trace.csv"}, pacing={"every": "1s"})

    assert experiment.timeline(1)[0].rates_bps[("tokyo", "oregon")] == 20e6


def test_a_trace_file_that_ends_before_the_run_is_refused(tmp_path):
    (tmp_path / "trace.csv").write_text("time,link,rate\n0,tokyo-oregon,20mbit\n10,tokyo-oregon,30mbit\n")
    keys = {"folder": tmp_path, "pacing": {"every": "1s"}}

    error = refused(trace={"kind": "file", "path": "trace.csv"}, **keys)

    assert "the trace ends at 10 s, the run at 20 s" in str(error)
    assert read(trace={"kind": "file", "path": "trace.csv", "hold": True}, **keys).name == "least"


def test_an_arm_that_outlives_its_trace_file_keeps_the_last_rates(tmp_path):
    (tmp_path / "trace.csv").write_text("time,link,rate\n0,tokyo-oregon,20mbit\n30,tokyo-oregon,30mbit\n")

    experiment = read(folder=tmp_path, trace={"kind": "file", "path": "trace.csv"}, pacing={"every": "1s"})

    assert experiment.timeouts.arm_s > 30
    assert experiment.timeline(1)[-1].rates_bps[("tokyo", "oregon")] == 30e6


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"colectives": 3}, ["colectives", "did you mean 'collectives'?"]),
        ({"payload": "8MB/s"}, ["payload", "8MiB"]),
        ({"payload": "8mbit"}, ["payload", "MiB"]),
        ({"payload": 0}, ["payload", "above zero"]),
        ({"payload": "3B"}, ["payload", "multiple of 4 bytes"]),
        ({"payload": "1e9GiB"}, ["payload", "at most 1 PiB"]),
        ({"timeouts": {"collective": "1us"}}, ["timeouts.collective", "1s or more"]),
        ({"timeouts": {"collective": "1e9h"}}, ["timeouts.collective", "at most 1000 h"]),
        ({"feed": {"delay": "1e300s"}}, ["feed.delay", "at most 1000 h"]),
        ({"trace": {"kind": "redraw", "every": "1us", "low": "1mbit", "high": "2mbit"}}, ["trace.every", "less often"]),
        (
            {
                "trace": {"kind": "redraw", "every": "100ms", "low": "1mbit", "high": "2mbit"},
                "timeouts": {"arm": "900h"},
            },
            ["trace.every", "less often"],
        ),
        ({"collectives": 0}, ["collectives"]),
        ({"collectives": 2.5}, ["collectives", "whole number"]),
        ({"wan": "mesh5"}, ["wan", "did you mean 'mesh4'?"]),
        ({"wan": "no/such.yaml"}, ["wan", "no such file"]),
        ({"wan": {"name": "x", "sites": [{"name": "a"}], "links": []}}, ["wan.sites", "at least two DCs"]),
        ({"wan": {"name": "x", "sights": [], "links": []}}, ["wan.sights", "did you mean 'sites'?"]),
        ({"trace": "redrew"}, ["trace.kind", "did you mean 'redraw'?"]),
        ({"trace": "redraw"}, ["trace.every", "trace.low", "trace.high"]),
        (
            {"trace": {"kind": "redraw", "every": "1s", "low": "-1mbit", "high": "20mbit"}},
            ["trace.low", "between 8 kbit/s and 1 Tbit/s"],
        ),
        (
            {"trace": {"kind": "constant", "links": "tokyo-oregano"}},
            ["trace.links", "did you mean 'tokyo-oregon'?"],
        ),
        ({"faults": [{"at": "1s", "kind": "down", "link": "nowhere"}]}, ["faults[0].link", "nowhere"]),
        ({"faults": [{"at": "1s", "kind": "crash", "dc": "tokio"}]}, ["faults[0].dc", "did you mean 'tokyo'?"]),
        ({"faults": [{"at": "9h", "kind": "down", "link": "tokyo-oregon"}]}, ["faults[0].at", "the run is over"]),
        ({"arms": []}, ["arms", "at least one arm"]),
        ({"arms": ["static", "static"]}, ["arms[1]", "twice"]),
        ({"arms": ["jiont"]}, ["arms[0]", "did you mean 'joint'?"]),
        ({"pacing": "sometimes"}, ["pacing", "back_to_back"]),
        ({"pacing": {"every": "0s"}}, ["pacing.every", "above zero"]),
        ({"reorder_every": 20}, ["reorder_every", "never act"]),
        ({"agent": {"policy": "best"}}, ["agent.policy", "module:function"]),
        ({"agent": {"policy": "shared"}}, ["agent.policy", "neither links nor routes", "source: feed"]),
        ({"agent": {"policy": "clairvoyant", "source": "feed"}}, ["agent.policy", "future", "source: oracle"]),
        ({"agent": {"source": "rumour"}}, ["agent.source"]),
        ({"agent": {"schedule": "tree"}}, ["agent.schedule", "did you mean 'trees'?"]),
        (
            {"agent": {"schedule": "trees"}, "controller": {"demands": "announced"}},
            ["agent.schedule", "flows of a ring", "demands: measured"],
        ),
        ({"controller": {"stack": "nox"}}, ["controller.stack"]),
        ({"t_wan": "1us"}, ["t_wan", "10ms to 24h"]),
        ({"timeouts": {"arm": "1s"}}, ["timeouts.arm", "longer than this timeout"]),
        ({"collectives": 1_000_000}, ["collectives", "a day is the most"]),
        ({"congestion_control": "Cubic; rm"}, ["congestion_control", "write it like cubic"]),
    ],
    ids=lambda value: json.dumps(value)[:50] if isinstance(value, dict) else "",
)
def test_what_is_wrong_is_named_with_its_place_and_a_remedy(keys, said):
    error = refused(**keys)

    assert "/nowhere/x.yaml:" in str(error)
    assert [part for part in said if part not in str(error)] == []
    assert error.exit_code == 2


def test_everything_that_is_wrong_is_said_at_once():
    error = str(refused(payload="3B", arms=["wan", "wan"], agent={"policy": "best"}))

    assert "3 faults" in error


def test_a_payload_that_the_memory_cannot_hold_is_refused_with_the_largest_that_fits():
    # 4 ranks hold 4 shards and their own: 20 shards in 80 % of 1000 MiB are 40 MiB each.
    error = str(refused(payload="41MiB", memory_bytes=1000 * 2**20))

    assert "give at most 40 MiB" in error
    assert read(payload="40MiB", memory_bytes=1000 * 2**20).size_bytes == 40 * 2**20


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "empty"), ("- a\n- b\n", "a list"), ("name: [\n", "not YAML"), ("name: x\nname: y\n", "twice")],
    ids=["empty", "list", "not yaml", "twice"],
)
def test_what_is_no_experiment_file_at_all_is_refused(tmp_path, text, said):
    (tmp_path / "x.yaml").write_text(text)

    with pytest.raises(InputError, match=said):
        load_experiment(tmp_path / "x.yaml")


def test_a_missing_file_is_said_with_the_nearest(tmp_path):
    (tmp_path / "quickstart.yaml").write_text("x")

    with pytest.raises(InputError, match=r"did you mean 'quickstart\.yaml'"):
        load_experiment(tmp_path / "quikstart.yaml")


def test_the_resolved_experiment_has_a_json_form():
    experiment = read(faults=[{"at": "1s", "kind": "down", "link": "tokyo-oregon", "for": "2s"}])

    plain = json.loads(json.dumps(experiment.to_json()))

    assert plain["dcs"] == list(experiment.wan.dcs)
    assert plain["faults"] == [{"at": 1.0, "for": 2.0, "kind": "down", "link": "tokyo-oregon"}]
    assert list(plain["arms"]) == ["static", "wan", "ccl", "joint"]
    assert plain["timeouts"]["arm_s"] == experiment.timeouts.arm_s


def test_labels_say_how_capacities_become_known():
    labels = read(feed={"delay": "250ms"}, agent={"source": "oracle"}).labels()

    assert "capacity: feed, delay 0.25 s" in labels
    assert any("bandwidths by oracle" in label for label in labels)


def test_a_planned_schedule_runs_where_an_agent_plans_it_and_is_a_ring_elsewhere():
    experiment = read(agent={"schedule": "trees"})

    schedules = {arm.name: experiment.agent.schedule_in(arm.reorder_every) for arm in experiment.arms}

    assert schedules == {"static": "ring", "wan": "ring", "ccl": "trees", "joint": "trees"}
    assert "schedule: trees in the arms that have a ring agent" in experiment.labels()
    assert read(agent={"schedule": "bidirectional"}).agent.schedule_in(0) == "bidirectional"


def test_the_path_policy_is_that_of_the_arms_whose_wan_acts():
    experiment = read(controller={"policy": "maxmin"})

    policies = {arm.name: arm.wan_policy for arm in experiment.arms}
    assert policies == {"static": "shortest", "wan": "maxmin", "ccl": "shortest", "joint": "maxmin"}


def test_what_the_controller_sees_and_when_it_moves_is_passed_on():
    experiment = read(
        controller={"policy": "ecmp", "demands": "announced", "dwell": "2s", "moves": 3, "move_every": "4s"},
        feed={"delay": "1s", "noise": "5%", "quantum": "10mbit", "loss": 0.01},
    )

    assert experiment.controller.feed == FeedSettings(1.0, 0.05, 10e6, 0.01)
    settings = experiment.controller.settings("ecmp")
    assert (settings.policy, settings.demands, settings.capacity) == ("ecmp", "announced", "feed")
    assert settings.calm == CalmSettings(2.0, 3, 4.0)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {"capacity: feed, delay 0 s", "paths: widest in the arms wan and joint"}),
        ({"capacity": "measured"}, {"capacity: measured by the counters of ports, learned where a link is full"}),
        ({"feed": {"noise": 0.1}}, {"capacity: feed, delay 0 s, noise 0.1 of the capacity"}),
        ({"controller": {"policy": "maxmin"}}, {"paths: maxmin in the arms wan and joint"}),
        ({}, {"demands: measured by the counters of ingress rules"}),
        ({"controller": {"demands": "announced"}}, {"demands: announced, the ring's order and bytes"}),
    ],
)
def test_labels_name_the_path_policy_the_demands_and_the_source_of_capacities(keys: dict, expected: set):
    assert expected <= set(read(**keys).labels())


@pytest.mark.parametrize(
    ("keys", "place", "says"),
    [
        ({"controller": {"policy": "maxmim"}}, "controller.policy", "did you mean 'maxmin'"),
        ({"controller": {"policy": "no_such_module:Mine"}}, "controller.policy", "cannot be imported"),
        ({"controller": {"demands": "guessed"}}, "controller.demands", "announced"),
        ({"controller": {"moves": 0}}, "controller.moves", "1"),
        ({"controller": {"move_every": "2d"}}, "controller", "move_every"),
        ({"capacity": "oracle"}, "capacity", "measured"),
        ({"capacity": "measured", "feed": {"delay": "1s"}}, "feed", "no feed where capacities are measured"),
        ({"feed": {"noise": 1.5}}, "feed.noise", "probability"),
        ({"feed": {"quantum": "ten"}}, "feed.quantum", "100mbit"),
    ],
)
def test_what_the_controller_would_refuse_is_said_before_anything_starts(keys: dict, place: str, says: str):
    error = str(refused(**keys))

    assert place in error
    assert says in error


def test_the_schema_knows_every_key():
    assert set(schema()["properties"]) == set(ExperimentSpec.model_fields)


def test_the_memory_of_this_machine_is_the_bound_unless_another_is_given(tmp_path):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({**LEAST, "payload": memory // 4 * 4}))

    with pytest.raises(InputError, match="this machine's"):
        load_experiment(tmp_path / "x.yaml")


def test_the_gate_loads_each_link_at_the_highest_rate_that_the_trace_gives_it():
    text = """
name: peaks
wan: mesh4
trace:
  kind: steps
  steps:
    - {at: 0, link: "tokyo-oregon", rate: 20mbit}
    - {at: 2s, link: "tokyo->oregon", rate: 150mbit}
    - {at: 1000s, link: "tokyo->oregon", rate: 500mbit}
blocks: 2
payload: 64KiB
collectives: 6
pacing: {every: 1s}
"""
    peaks = read_experiment(text, Path("peaks.yaml"), memory_bytes=2**34).peak_rates_bps()
    assert peaks["tokyo", "oregon"] == 150e6  # what comes after the arm does not count
    assert peaks["oregon", "tokyo"] == 20e6
    assert peaks["tokyo", "virginia"] == 100e6
