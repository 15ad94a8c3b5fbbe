"""A run folder as the page plays it."""

import pytest
from synthetic import CLOCK_AT_START, make_run

from testbed.live.web.recording import Recording
from testbed.runfolder import GATE, open_run
from topologies.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run") / "r", blocks=2)


@pytest.fixture(scope="module")
def recording(folder):
    return Recording(open_run(folder.path))


def _arm(recording, name, block=1):
    return next(arm for arm in recording.block(block)["arms"] if arm["arm"] == name)


def _of(arm, kind):
    return [event for event in arm["events"] if event["kind"] == kind]


def test_the_scene_has_every_site_with_a_place_every_link_and_the_blocks(recording):
    scene = recording.scene()

    assert (scene["mode"], scene["title"], scene["blocks"]) == ("run", "quickstart", [1, 2])
    assert [site["name"] for site in scene["sites"]] == [
        "frankfurt",
        "mumbai",
        "oregon",
        "singapore",
        "tokyo",
        "virginia",
    ]
    assert scene["links"][0] == {"name": "tokyo-oregon", "a": 4, "b": 2, "rates_bps": [60e6, 60e6]}
    assert scene["size_bytes"] == 512 * 1024


def test_arms_come_in_the_order_of_the_experiment_whatever_order_they_ran_in(recording):
    assert [arm["arm"] for arm in recording.block(2)["arms"]] == ["static", "wan", "ccl", "joint"]


def test_events_are_in_order_and_begin_with_rates_paths_ring_and_settings(recording):
    events = _arm(recording, "joint")["events"]

    assert [event["kind"] for event in events[:4]] == ["edges", "routes", "ring", "settings"]
    assert all(event["first"] for event in events[:4])
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


def test_every_collective_is_there_with_its_time_and_limit(recording, folder):
    kept = folder.read(1, "wan", "collectives")
    collectives = _of(_arm(recording, "wan"), "collective")

    assert [each["took_s"] for each in collectives] == pytest.approx([each["end"] - each["start"] for each in kept])
    assert [each["limit_s"] for each in collectives] == [each["limit_s"] for each in kept]
    assert collectives[0]["at"] < CLOCK_AT_START, "times count from the start of the arm"


def test_a_pair_that_moves_later_begins_on_the_path_it_leaves_and_is_logged_with_what_it_took(recording):
    arm = _arm(recording, "wan")
    tokyo, virginia, oregon = 4, 5, 2
    first, *later = _of(arm, "routes")

    assert [tokyo, virginia, [tokyo, oregon, virginia]] in first["moves"]
    assert later[0]["moves"] == [[tokyo, virginia, [tokyo, virginia]]]
    assert later[0]["took_s"] == pytest.approx(0.01)
    assert later[0]["text"] == "1 pair moved (capacity): tokyo → oregon → virginia now tokyo → virginia"


def test_every_pair_of_dcs_has_a_path_from_the_first_moment(recording):
    moves = _of(_arm(recording, "static"), "routes")[0]["moves"]

    assert {(a, b) for a, b, _ in moves} == {(a, b) for a in range(6) for b in range(6) if a != b}
    assert all((route[0], route[-1]) == (a, b) for a, b, route in moves)


def test_a_fault_takes_both_directions_down_and_healing_gives_them_the_rate_the_trace_has_reached(tmp_path):
    folder = make_run(tmp_path / "r", blocks=1, arms=["static"])
    start = folder.read_arms()[0]["started_at"]
    at = lambda second: {"planned_s": second, "begun_at": start + second, "applied_at": start + second}  # noqa: E731
    folder.append(1, "static", "faults", {**at(1.0), "link": "tokyo-oregon", "state": "down"})
    folder.append(1, "static", "changes", {**at(2.0), "rates": [["tokyo", "oregon", 7e6]]})
    folder.append(1, "static", "faults", {**at(3.0), "link": "tokyo-oregon", "state": "up"})

    arm = Recording(open_run(folder.path)).block(1)["arms"][0]
    by_time = {round(event["at"], 6): event for event in _of(arm, "edges")}

    assert [row[::2] for row in by_time[1.0]["set"]] == [[0, "down"], [1, "down"]]
    assert by_time[2.0]["set"] == [[0, 7e6, "down"]]
    assert by_time[3.0]["set"][0] == [0, 7e6, "up"]
    assert (by_time[1.0]["tone"], by_time[3.0]["tone"]) == ("fault", "heal")


def test_a_run_in_which_nothing_was_measured_is_refused_with_what_to_do(tmp_path):
    folder = make_run(tmp_path / "r", blocks=1)
    for arm in ("static", "wan", "ccl", "joint"):
        (folder.path / "blocks" / "1" / arm / "collectives.jsonl").unlink()

    with pytest.raises(InputError, match="no collective was measured"):
        Recording(open_run(folder.path))


def test_a_block_that_is_not_there_is_no_block(recording):
    with pytest.raises(KeyError):
        recording.block(99)


def test_a_run_that_is_not_to_be_trusted_says_so_and_why(recording, tmp_path):
    folder = make_run(tmp_path / "r", blocks=1, arms=["static"])
    folder.write_json(
        GATE, {"trustworthy": False, "reasons": ["tokyo → oregon carried 0.80 of its rate"], "figures": {}}
    )

    assert recording.scene()["doubt"] == ""
    assert Recording(open_run(folder.path)).scene()["doubt"] == "tokyo → oregon carried 0.80 of its rate"
