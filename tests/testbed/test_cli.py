"""The command line: messages, exit codes, what goes to which stream, and signals. No network is needed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from synthetic import make_run
from typer.main import get_command
from typer.testing import CliRunner

from testbed import runner
from testbed.cli import app
from testbed.fidelity import Verdict
from testbed.runfolder import ARMS, GATE, MANIFEST
from topologies.builtins import builtin
from topologies.errors import RingroadError
from topologies.summary import summary

ROOT = Path(__file__).parents[2]
SHORT = str(ROOT / "experiments" / "short.yaml")
FEW = {"name": "short", "wan": "mesh4", "collectives": 12}


def ringroad(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


class PartDied(RingroadError):
    exit_code = 4


@pytest.fixture
def run_instead(monkeypatch):
    """Puts a made-up run in place of the real one, which ends as `ending` says."""

    def replace(ending=None, change=lambda folder: None, blocks=1):
        def run_experiment(experiment, progress, out=None):
            progress.phase("bringing the WAN up")
            folder = make_run(out, keys=FEW, blocks=blocks, arms=[arm.name for arm in experiment.arms])
            progress.keep_in(folder.path)
            progress.begin(1)
            progress.advance()
            change(folder)
            if ending is not None:
                raise ending
            return folder

        monkeypatch.setattr(runner, "run_experiment", run_experiment)

    return replace


VERBS = [[name] for name in get_command(app).commands if name != "topologies"]
VERBS += [["topologies", name] for name in ("list", "show", "schema")]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_an_example_in_its_help(verb):
    shown = ringroad(*verb, "--help")

    assert shown.exit_code == 0
    assert "Example" in shown.stdout
    assert f"ringroad {' '.join(verb)}" in shown.stdout


def test_the_help_has_the_exit_codes():
    assert "130 interrupted" in ringroad("--help").stdout


def test_the_version_is_shown():
    assert ringroad("--version").stdout == "ringroad 0.1.0\n"


def test_what_may_be_given_instead_of_a_known_name_is_said():
    near, far = ringroad("topologies", "show", "sx"), ringroad("topologies", "show", "atlantis")

    assert "remedy: did you mean 'six'? Or give the path of a WAN file" in near.stderr
    assert "remedy: known: b4, mesh4, prism, six; or give the path of a WAN file" in far.stderr


def test_an_unknown_verb_is_bad_input():
    assert ringroad("rum").exit_code == 2


def test_a_right_file_is_described_with_its_plan_and_duration():
    shown = ringroad("validate", SHORT)

    assert shown.exit_code == 0
    assert "short: the file is right" in shown.stdout
    assert "block 1: " in shown.stdout
    assert "expected: about" in shown.stdout


def test_a_wrong_file_gives_one_message_without_traceback_and_exit_code_2(tmp_path):
    (tmp_path / "x.yaml").write_text("name: x\nwan: mesh4\npayload: 1 furlong\ncollectives: 20\n")

    shown = ringroad("validate", tmp_path / "x.yaml")

    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert "x.yaml:3: payload: 'furlong' is not a unit of size" in shown.stderr
    assert "remedy:" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_the_schema_of_experiments_is_json():
    assert "payload" in json.loads(ringroad("validate", "--schema").stdout)["properties"]
    assert "[EXPERIMENT.yaml]" in ringroad("validate", "--help").stdout


def test_without_a_file_there_is_nothing_to_validate():
    shown = ringroad("validate")

    assert shown.exit_code == 2
    assert "give the experiment's file, or --schema" in shown.stderr


def test_topologies_are_listed_for_people_and_for_programs():
    for_people, for_programs = ringroad("topologies", "list"), ringroad("topologies", "list", "--json")

    assert "mesh4: 4 DCs, 6 links, 100 Mbit/s. " in for_people.stdout
    assert [wan["name"] for wan in json.loads(for_programs.stdout)] == ["b4", "mesh4", "prism", "six"]


def test_a_topology_is_shown_as_a_map_its_sites_and_its_links():
    shown = ringroad("topologies", "show", "six").stdout

    assert shown == summary(builtin("six"))
    assert "5  tokyo      dc    3      oregon, singapore, frankfurt" in shown


def test_a_topology_is_given_as_a_file_to_begin_from(tmp_path):
    text = ringroad("topologies", "show", "six", "--yaml").stdout
    (tmp_path / "mine.yaml").write_text(text)

    assert text == (ROOT / "topologies" / "builtin" / "six.yaml").read_text()
    assert ringroad("topologies", "show", tmp_path / "mine.yaml", "--yaml").stdout == text
    assert json.loads(ringroad("topologies", "show", "six", "--json").stdout)["name"] == "six"
    assert "links" in json.loads(ringroad("topologies", "schema").stdout)["properties"]


def test_a_topology_that_is_not_there_is_bad_input():
    shown = ringroad("topologies", "show", "sex")

    assert shown.exit_code == 2
    assert "did you mean 'six'?" in shown.stderr


def test_a_report_is_made_of_a_run_folder(tmp_path):
    folder = make_run(tmp_path / "run", keys=FEW, blocks=1)

    shown = ringroad("report", folder.path)

    assert shown.exit_code == 0
    assert "joint" in shown.stdout
    assert (folder.path / "summary.txt").exists()


def test_json_is_alone_on_stdout(tmp_path):
    folder = make_run(tmp_path / "run", keys=FEW, blocks=1)

    shown = ringroad("report", folder.path, "--json")

    assert json.loads(shown.stdout)["experiment"] == "short"
    assert "joint" in shown.stderr


def test_a_run_ends_in_its_table_and_says_where_it_is_kept(tmp_path, run_instead):
    run_instead()

    shown = ringroad("run", SHORT, "--out", tmp_path / "run", "--arms", "static,joint")

    assert shown.exit_code == 0
    assert "joint" in shown.stdout
    assert "ccl" not in shown.stdout
    assert str(tmp_path / "run") in shown.stderr
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_quiet_run_with_json_says_nothing_else_on_stdout(tmp_path, run_instead):
    run_instead()

    shown = ringroad("run", SHORT, "--out", tmp_path / "run", "--json", "--quiet")

    assert json.loads(shown.stdout)["trustworthy"] is True
    assert "bringing the WAN up" not in shown.stderr


def test_a_run_that_is_not_to_be_trusted_returns_3(tmp_path, run_instead):
    run_instead(change=lambda folder: folder.write_json(GATE, Verdict(False, ("a → b carries half",))))

    shown = ringroad("run", SHORT, "--out", tmp_path / "run")

    assert shown.exit_code == 3
    assert "NOT TRUSTWORTHY" in shown.stdout
    assert "a → b carries half" in shown.stdout


def test_a_part_that_died_is_named_after_the_report_of_what_there_is(tmp_path, run_instead):
    run_instead(ending=PartDied("rank 2 (tokyo) died", "see its log"))

    shown = ringroad("run", SHORT, "--out", tmp_path / "run")

    assert shown.exit_code == 4
    assert "ringroad: rank 2 (tokyo) died" in shown.stderr
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_run_that_fails_before_any_arm_is_finished_has_a_summary_that_says_so(tmp_path, run_instead):
    def before_the_arms(folder):
        (folder.path / ARMS).unlink()
        shutil.rmtree(folder.path / "blocks" / "1")

    run_instead(ending=PartDied("ovs-vswitchd died"), change=before_the_arms)

    assert ringroad("run", SHORT, "--out", tmp_path / "run").exit_code == 4
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["arms"] == {}
    assert summary["conclusion"] == "No arm is finished: there is nothing to compare."
    assert (tmp_path / "run" / "summary.txt").exists()


def test_a_run_that_fails_before_it_has_a_manifest_has_no_report(tmp_path, run_instead):
    run_instead(ending=PartDied("ovs-vswitchd died"), change=lambda folder: (folder.path / MANIFEST).unlink())

    shown = ringroad("run", SHORT, "--out", tmp_path / "run")

    assert shown.exit_code == 4
    assert "no report" not in shown.stderr
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_report_that_cannot_be_written_has_a_remedy_that_report_knows(tmp_path, monkeypatch):
    folder = make_run(tmp_path / "run", keys=FEW, blocks=1)
    monkeypatch.setattr(Path, "write_bytes", refused)

    shown = ringroad("report", folder.path)

    assert shown.exit_code == 1
    assert "report on the copy" in shown.stderr
    assert "--out" not in shown.stderr


def refused(*_):
    raise PermissionError(13, "Permission denied")


def test_an_interrupted_run_keeps_what_it_has_and_returns_130(tmp_path, run_instead):
    run_instead(ending=KeyboardInterrupt())

    shown = ringroad("run", SHORT, "--out", tmp_path / "run")

    assert shown.exit_code == 130
    assert (tmp_path / "run" / "summary.json").exists()


def test_an_arm_that_the_file_lacks_is_bad_input():
    shown = ringroad("run", SHORT, "--arms", "static,jiont")

    assert shown.exit_code == 2
    assert "choose among static, wan, ccl, joint" in shown.stderr


INTERRUPTED = """
import os, signal, sys, time
from testbed.interruption import Interrupted, interruptible
number = int(sys.argv[1])
with interruptible():
    try:
        os.kill(os.getpid(), number)
        signal.pause()
    except KeyboardInterrupt as error:
        os.kill(os.getpid(), number)
        print("cleaned up after", type(error).__name__, error)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_the_first_signal_interrupts_and_a_second_does_not_cut_the_cleaning_short(number):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(int(number))],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )

    assert done.stdout == f"cleaned up after Interrupted {number.name}\n"
    assert "cleaning up" in done.stderr
    assert done.returncode == 0


def test_an_ignored_signal_stays_ignored():
    program = """
    import os, signal
    from testbed.interruption import interruptible
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible():
        os.kill(os.getpid(), signal.SIGHUP)
    print("went on")
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )

    assert done.stdout == "went on\n"


def shell(command, **environment):
    """What a shell makes of a command in which `ringroad` stands for the real program."""
    script = f'ringroad() {{ "{sys.executable}" -m testbed.cli "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", script], capture_output=True, env={**os.environ, **environment}, timeout=60)


def test_a_full_disk_behind_stdout_is_said_in_words():
    done = shell("ringroad topologies list >/dev/full")
    assert done.returncode == 1
    assert b"No space left" in done.stderr and b"Traceback" not in done.stderr


def test_closed_streams_are_no_trouble(tmp_path):
    folder = make_run(tmp_path / "run", keys=FEW, blocks=1).path
    done = shell(f"ringroad report {folder} <&- >&- 2>&-")
    assert done.returncode == 0
    assert not (folder / "summary.txt").read_bytes().startswith(b"ringroad")


def test_a_terminal_that_knows_ascii_alone_gets_the_table_all_the_same(tmp_path):
    folder = make_run(tmp_path / "run", keys=FEW, blocks=1).path
    done = shell(f"ringroad report {folder}", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert b"static" in done.stdout


def test_a_reader_that_has_enough_is_no_fault():
    assert b"Traceback" not in shell("ringroad topologies list | head -c 1").stderr
