"""A program in the DCs, all but the network: options, environment, output, ends, records, steps, the table."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from waiting import eventually

from testbed.arm import Trace
from testbed.commands.exec import arms_named
from testbed.emulation.processes import Watch
from testbed.emulation.state import start_ticks
from testbed.execution.asked import from_file, from_options
from testbed.execution.beginning import Beginning
from testbed.execution.collected import Collected
from testbed.execution.environment import Place, places, torchrun_environment, whole_environment
from testbed.execution.limits import Limits
from testbed.execution.output import Lines, Terminal
from testbed.execution.ranks import RankEnd, RankFailed, Ranks, worst_exit_code
from testbed.execution.steps import STEP, step_pattern, step_times_s
from testbed.execution.summary import KIND, _steps_s, make_summary
from testbed.execution.table import summary_text
from testbed.fidelity import CpuSample
from testbed.runfolder import GATE, MANIFEST, RunFolder
from topologies.errors import InputError

DCS = ("oslo", "lima", "pune")


def test_processes_are_numbered_and_told_as_torchrun_does():
    # given two processes in each of three DCs
    fourth = places(DCS, 2)[3]
    # then the fourth is the second one of the second DC
    assert fourth == Place(rank=3, dc="lima", local_rank=1, group_rank=1)
    told = torchrun_environment(fourth, 3, 2, "10.0.0.1", 29500, "job")
    assert {name: told[name] for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")} == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "GROUP_RANK": "1",
        "WORLD_SIZE": "6",
        "LOCAL_WORLD_SIZE": "2",
    }
    assert (told["MASTER_ADDR"], told["MASTER_PORT"], told["GLOO_SOCKET_IFNAME"]) == ("10.0.0.1", "29500", "eth0")


def test_what_a_person_has_in_the_environment_goes_before_ours(tmp_path):
    base = {"PYTHONPATH": "/theirs", "PATH": "/bin", "OMP_NUM_THREADS": "3", "HOME": "/h"}
    found = whole_environment(base, {"RANK": "0"}, "{}", "ring", tmp_path / "bin", [tmp_path / "ours"])
    assert found["PYTHONPATH"] == f"/theirs:{tmp_path}/ours"
    assert found["PATH"] == f"{tmp_path}/bin:/bin"
    assert (found["OMP_NUM_THREADS"], found["HOME"], found["PYTHONUNBUFFERED"]) == ("3", "/h", "1")


def test_output_is_cut_into_lines_wherever_it_is_torn():
    text = b"one\r\ntwo\n10%\r20%\r\xc3\xa9\nlast"
    for size in (1, 2, 3, 100):
        lines = Lines()
        found = [line for at in range(0, len(text), size) for line in lines.fed(text[at : at + size])]
        assert [*found, *lines.rest()] == ["one", "two", "10%", "20%", "é", "last"]


def test_a_line_without_end_appears_in_pieces():
    lines = Lines()
    assert sum(len(line) for line in lines.fed(b"x" * 100_000)) > 80_000


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("step    3    0.250 s  loss 4.1", [0.25]),
        ("[rank 0] Step: 12, took 532 ms", [0.532]),
        ("epoch 1 step=7 loss 2.5 time 1.5 s", [1.5]),
        ("step time: median 0.250 s", []),
        ("step 3 loss 4.1", []),
        ("footstep 3 0.2 s", []),
    ],
)
def test_steps_are_found_in_what_scripts_print(line, seconds):
    assert step_times_s([line], step_pattern(STEP)) == pytest.approx(seconds)


def test_a_pattern_of_ones_own_finds_seconds():
    assert step_times_s(["iteration took 2.5"], step_pattern(r"took (\S+)")) == [2.5]
    assert step_times_s(["iteration took long"], step_pattern(r"took (\S+)")) == []


# The experiment that options describe.


def asked(**given):
    return from_options("mesh4", ["static", "joint"], 600, **{"trace": None, "faults": [], **given})


def test_options_describe_an_experiment():
    experiment = asked(
        trace="{kind: redraw, every: 10s, low: 15mbit, high: 60mbit}",
        faults=["{at: 9min, kind: down, link: tokyo-oregon}"],
        seed=7,
        reorder_every=3,
        **{"agent.source": "feed", "controller.policy": "ecmp"},
    )
    assert [(arm.name, arm.wan_policy, arm.reorder_every) for arm in experiment.arms] == [
        ("static", "shortest", 0),
        ("joint", "ecmp", 3),
    ]
    assert (experiment.seed, experiment.agent.source, experiment.timeouts.arm_s) == (7, "feed", 600)
    assert max(rate for edge, rate in experiment.peak_rates_bps().items()) <= 60e6
    assert experiment.faults[0].at == 540


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"trace": "{kind: redraw, every: 10s}"}, "--trace: low: this key is missing"),
        ({"trace": "redrw"}, "--trace"),
        ({"trace": "{"}, "--trace"),
        ({"faults": ["{at: 1s, kind: down, link: nowhere}"]}, "--fault: [0].link"),
        ({"faults": ["down"]}, "--fault"),
        ({"faults": ["{at: 1s, kind: crash, dc: tokyo, for: 2s}"]}, "--fault: [0].for: a program's processes do not"),
        ({"t_wan": "soon"}, "--t-wan"),
        ({"agent.policy": "best"}, "--policy: no such ring policy"),
        ({"agent.policy": "shared"}, "--policy"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_the_options(given, says):
    with pytest.raises(InputError, match=r"^(?!.*options:)") as caught:
        asked(**given)
    assert says in str(caught.value)


def test_an_arm_that_does_not_exist_is_refused_by_the_name_of_its_option():
    with pytest.raises(InputError, match=r"^--arm: not one of the choices \(got 'jonit'\)") as caught:
        arms_named(["static,jonit"])
    assert caught.value.remedy == "did you mean 'joint'?"


def test_all_arms_are_named_at_once_and_none_twice():
    assert arms_named(["ccl", "all"]) == ["ccl", "static", "wan", "joint"]


def test_a_crash_that_is_over_is_refused_for_a_program_whose_processes_do_not_come_back(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(
        "{name: x, wan: mesh4, payload: 1MiB, collectives: 9, reorder_every: 2, elastic: true, "
        "pacing: {every: 1s}, faults: [{kind: crash, dc: tokyo, at: 1s, for: 2s}]}"
    )
    with pytest.raises(InputError, match=r"x.yaml: faults: a program's processes do not come back \(got 2.0\)"):
        from_file(file, None, None, 600)


# Processes.


class Here:
    """Starts processes in a session of their own, as a DC does, but here."""

    def popen(self, args, **options):
        return subprocess.Popen(args, stdin=subprocess.DEVNULL, start_new_session=True, **options)


def run(tmp_path, script, *, grace_s=5.0, until_s=60.0, stop_after_s=None, shown=None):
    """`script` in three processes; how they ended, and whether all did by themselves."""
    ranks = Ranks(places(DCS, 1), tmp_path, Terminal(shown, lambda error: None), grace_s)
    with Watch() as watch:
        try:
            command = [sys.executable, "-c", script]
            ranks.start(lambda dc: Here(), command, lambda place: os.environ | {"RANK": str(place.rank)}, pytest.fail)
            done = ranks.wait(watch.fileno(), time.monotonic() + until_s)
        finally:
            ranks.end()
            ranks.close()
    return sorted(ranks.ends, key=lambda end: end.place.rank), done


def test_output_is_shown_by_rank_and_kept_whole(tmp_path):
    shown = io.StringIO()
    ends, done = run(tmp_path, "import os; print('hello'); os.write(2, b'\\x80no end')", shown=shown)
    assert done and [end.returncode for end in ends] == [0, 0, 0]
    assert sorted(shown.getvalue().splitlines()) == sorted(
        f"[{rank} {dc}] {line}" for rank, dc in enumerate(DCS) for line in ("hello", "\ufffdno end")
    )
    assert (tmp_path / "rank1.log").read_bytes() == b"hello\n\x80no end"


def test_a_rank_that_fails_takes_the_others_with_it_after_the_grace_period(tmp_path):
    script = "import os, sys, time; rank = int(os.environ['RANK']); time.sleep(60 if rank == 0 else 0); sys.exit(rank)"
    ends, done = run(tmp_path, script, grace_s=0.3)
    assert done
    assert [(end.exit_code, end.by_us) for end in ends] == [(128 + signal.SIGTERM, True), (1, False), (2, False)]
    assert worst_exit_code(ends) == 2


def test_the_first_that_failed_is_named_with_its_dc_and_its_last_words(tmp_path):
    log = tmp_path / "rank1.log"
    log.write_text("much\nTraceback: no luck\n")
    oslo, lima, pune = places(DCS, 1)
    failed = RankFailed(
        [
            RankEnd(pune, 1, 12.0, False, tmp_path / "rank2.log"),
            RankEnd(lima, -signal.SIGKILL, 11.0, False, log),
            RankEnd(oslo, -signal.SIGTERM, 13.0, True, tmp_path / "rank0.log"),
        ]
    )
    assert "rank 1 (lima) ended first: killed by SIGKILL; then rank 2 (pune): exit code 1" in failed.message
    assert "rank 0 (oslo) had to be ended" in failed.message
    assert "Traceback: no luck" in failed.message
    assert failed.exit_code == 128 + signal.SIGKILL


def test_an_abort_at_the_end_is_a_failure_and_says_what_helps(tmp_path):
    log = tmp_path / "rank0.log"
    log.write_text("all done\nterminate called without an active exception\n")
    failed = RankFailed([RankEnd(places(DCS, 1)[0], -signal.SIGABRT, 1.0, False, log)])
    assert failed.exit_code == 134
    assert "destroy_process_group" in failed.remedy


def test_steps_are_found_beside_a_line_that_never_ends(tmp_path):
    (tmp_path / "rank0.log").write_bytes(b"step 1 2.0 s\n" + b"\0" * 100_000 + b"\nstep 2 3.0 s\n")
    assert _steps_s(tmp_path / "rank0.log", STEP) == [2.0, 3.0]


def test_what_is_not_done_in_time_is_not_waited_for(tmp_path):
    ends, done = run(tmp_path, "import time; time.sleep(60)", until_s=0.3)
    assert not done
    assert all(end.by_us for end in ends)


def test_what_a_process_leaves_running_ends_with_it(tmp_path):
    script = (
        "import os, subprocess, sys; "
        f"p = subprocess.Popen(['sleep', '60']); open('{tmp_path}/' + os.environ['RANK'], 'w').write(str(p.pid))"
    )
    ends, done = run(tmp_path, script)
    assert done and len(ends) == 3
    for rank in range(3):
        pid = int((tmp_path / str(rank)).read_text())
        eventually(lambda: start_ticks(pid) is None)  # noqa: B023 (called at once)


# Records.


MESH = [
    (0.0, {(a, b): 30e6 for a in DCS for b in DCS if a != b}),
    (100.0, {(a, b): 3e6 for a in DCS for b in DCS if a != b}),
]


def part(rank, start, end, **fields):
    plain = {"collective": "all_reduce", "group": "0", "ranks": [0, 1, 2], "index": 4, "rank": rank, "epoch": 0}
    plain |= {"order": [0, 1, 2], "size_bytes": 6_000_000, "turn_start": start, "start": start, "end": end}
    return plain | fields


def collected(dc_of=DCS):
    records, orders = [], []
    taker = Collected(
        dc_of, begun(), lambda *record: records.append(record), orders.append, lambda: orders.append("joined")
    )
    return taker, records, orders


def begun(at=0.0):
    limits = Limits(MESH, DCS)
    limits.started_at = at
    return limits


def test_a_collective_lasts_from_the_first_start_to_the_last_end():
    taker, records, _ = collected()
    for rank, start, end in ((1, 10.1, 13.0), (0, 10.0, 12.9)):
        taker.take(part(rank, start, end))
    assert records == []
    taker.take(part(2, 10.2, 13.5))
    ((kind, record),) = records
    assert (kind, record["kind"], record["start"], record["end"], record["index"]) == (
        "collectives",
        "all_reduce",
        10.0,
        13.5,
        4,
    )
    # 48 Mbit of partial sums: 4 · 48 Mbit end on six links of 30 Mbit/s
    assert record["limit_s"] == pytest.approx(4 * 48 / 180)


def test_the_limit_is_that_of_the_best_links_meanwhile_and_of_all_ranks_in_a_dc():
    limits = begun()
    shape = {"kind": "all_gather", "size_bytes": 750_000}
    # two ranks of 6 Mbit in each of 3 DCs: 12 Mbit leave each DC over two links of 30
    six = limits.added(
        shape | {"ranks": [0, 1, 2, 3, 4, 5], "start": 99.0, "end": 101.0}, [dc for dc in DCS for _ in "ab"]
    )
    assert six["limit_s"] == pytest.approx(24 / 60)
    late = limits.added(shape | {"ranks": [0, 1, 2], "start": 101.0, "end": 102.0}, DCS)
    assert late["limit_s"] == pytest.approx(12 / 6)
    assert limits.added(shape | {"ranks": [0, 1], "start": 1.0, "end": 2.0}, ["oslo", "oslo"])["limit_s"] is None
    assert limits.shard_bps(1.0) == pytest.approx(30e6)


def test_before_the_trace_has_started_its_second_0_holds():
    limits = Limits(MESH, DCS)
    assert limits.shard_bps(1e9) == pytest.approx(30e6)
    limits.started_at = 1e9
    assert limits.shard_bps(1e9 + 99) == pytest.approx(30e6)
    assert limits.shard_bps(1e9 + 101) == pytest.approx(3e6)


class Still:
    """A player that only remembers."""

    def __init__(self):
        self.said = []

    def start(self, at):
        self.said.append("start")

    def stop(self):
        self.said.append("stop")


def test_the_trace_begins_once_and_what_came_before_it_is_not_judged():
    player, trace, limits = Still(), Trace(MESH), Limits(MESH, DCS)
    beginning = Beginning(player, trace, limits)
    before = CpuSample(time.monotonic() - 1, time.monotonic(), 0.0)
    assert beginning.since([before]) == [before]
    beginning.expect("joined")
    assert beginning.at is None
    for _ in range(2):
        beginning.begin()
    assert beginning.at == trace.started_at == limits.started_at
    after = CpuSample(time.monotonic(), time.monotonic() + 1, 0.5)
    assert beginning.since([before, after]) == [after]
    beginning.end()
    assert player.said == ["start", "stop"]


def test_a_trace_that_has_not_begun_never_does_after_the_end():
    player = Still()
    beginning = Beginning(player, Trace(MESH), Limits(MESH, DCS))
    beginning.end()
    beginning.begin()
    assert (player.said, beginning.at) == (["stop"], None)


def test_that_all_have_joined_is_said_once():
    taker, _, orders = collected()
    for rank in (0, 2, 2, 0):
        taker.take({"joined": rank})
    assert orders == []
    taker.take({"joined": 1})
    taker.take({"joined": 1})
    assert orders == ["joined"]


def test_a_ring_change_is_kept_with_the_limit_and_told_to_who_has_to_know():
    taker, records, orders = collected([dc for dc in DCS for _ in "ab"])
    change = {"changed": True, "to": [0, 2, 1], "started_at": 5.0, "epoch": 1}
    taker.take({"ring_change": change, "members": [[0, 1], [2, 3], [4, 5]], "group": "0"})
    assert records[0][0] == "ring_changes"
    assert records[0][1]["limit_bps"] == pytest.approx(30e6)
    assert orders == [["oslo", "pune", "lima"]]


@pytest.mark.parametrize(
    "message", [{}, {"collective": "x"}, {"collective": 1, "group": [], "index": 1}, {"ring_change": 3}]
)
def test_what_is_no_record_is_left_out(message):
    taker, records, _ = collected()
    taker.take(message)
    assert records == []


# The summary.


def folder_of(path, gate=True):
    folder = RunFolder.create("exec", "abcd", "name: exec\n", out=path)
    program = {"command": ["python", "train.py"], "per_dc": 1, "gloo": "ring", "grace_s": 5.0}
    manifest = {"kind": KIND, "run_id": "abcd", "started": "then", "program": program, "step": STEP, "notes": []}
    folder.write_json(MANIFEST, manifest | {"experiment": {"wan": {"name": "mesh4"}}})
    if gate:
        folder.write_json(GATE, {"trustworthy": True, "reasons": [], "figures": {}})
    for arm, seconds in (("joint", 0.5), ("static", 1.0)):
        logs = folder.logs / f"block1-{arm}"
        logs.mkdir()
        (logs / "rank0.log").write_text(f"step 0 9.0 s\nstep 1 {seconds} s\nstep 2 {seconds} s\n")
        folder.append(1, arm, "collectives", {"time_s": 0.2, "limit_s": 0.1})
        folder.append(1, arm, "ring_changes", {"changed": arm == "joint"})
        folder.append(1, arm, "reconfigurations", {"cause": "reset"})
        verdict = {"reasons": []}
        record = {"block": 1, "arm": arm, "launched_at": 0.0, "ended_at": 20.0, "exit_code": 0, "verdict": verdict}
        folder.append_arm(record)
    return path


def test_arms_are_compared_by_the_steps_that_are_printed(tmp_path):
    summary = make_summary(folder_of(tmp_path / "run"))
    assert list(summary.arms) == ["static", "joint"]
    joint = summary.arms["joint"]
    assert (joint.steps, joint.step_median_s, joint.speedup, joint.limit_fraction) == (2, 0.5, 2.0, 0.5)
    assert (joint.ring_changes, joint.ring_changes_considered, joint.reconfigurations) == (1, 1, 0)
    assert summary.trustworthy and summary.exit_code == 0
    text = (tmp_path / "run" / "summary.txt").read_text()
    assert text == summary_text(summary)
    assert "python train.py" in text and "500 ms" in text
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["arms"]["joint"]["speedup"] == 2.0


def test_without_a_gate_the_summary_says_what_is_open(tmp_path):
    summary = make_summary(folder_of(tmp_path / "run", gate=False))
    assert any("no fidelity gate" in note for note in summary.notes)
