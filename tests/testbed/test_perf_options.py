"""`ringroad perf` refuses what cannot be measured before anything starts, and shows, keeps and judges what was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from testbed.cli import app
from testbed.fidelity import Verdict
from testbed.perf import session
from testbed.perf.rows import Row, Times
from topologies.errors import RingroadError

MIB = 2**20


def perf(*arguments: str):
    return CliRunner().invoke(app, ["perf", *arguments])


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["all_around"], "collective"),
        (["all_gather", "-b", "3"], "-b"),
        (["all_gather", "-b", "1x"], "-b"),
        (["all_gather", "-b", "9" * 5000], "-b"),
        (["all_gather", "-e", "1K"], "-e"),
        (["all_gather", "-e", "900G"], "-e"),
        (["all_gather", "-f", "1"], "-f"),
        (["all_reduce", "-d", "int32", "-o", "avg"], "-o"),
        (["broadcast", "-r", "4"], "-r"),
        (["all_gather", "--schedule", "tree"], "--schedule"),
        (["all_gather", "--order", "tokyo,oregon"], "--order"),
        (["all_gather", "--compare", "nccl"], "--compare"),
        (["all_gather", "-J", "/nowhere/out.json"], "-J"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_its_place_and_a_remedy(arguments: list[str], place: str):
    refused = perf(*arguments)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"ringroad: {place}:")
    assert "remedy:" in refused.stderr and "Traceback" not in refused.stderr


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch):
    """Puts made-up rows in place of measured ones; the run then ends as `ending` says."""

    def replace(wrong: int = 0, verdict: Verdict | None = None, ending: BaseException | None = None) -> None:
        def run_perf(request, progress, on_row, result):
            for size in request.perf.sizes:
                times = Times((2.0, 4.0), wrong, 0)
                row = Row("all_gather", size, size // 16, "float", "none", -1, 4, 1.5, times, None)
                result.rows.append(row)
                on_row(row)
            if ending is not None:
                raise ending
            result.verdict, result.complete = verdict or Verdict(True), True

        monkeypatch.setattr(session, "run_perf", run_perf)

    return replace


def test_rows_are_shown_under_their_columns_and_kept_as_json(tmp_path: Path, measured):
    measured()
    done = perf("all_gather", "-b", "1M", "-e", "2M", "-J", str(tmp_path / "out.json"))
    assert done.exit_code == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    # a mean of 3 s, a limit of 1.5
    assert [(row[0], row[5], row[10]) for row in rows] == [
        (str(MIB), "3000000.0", "50.0%"),
        (str(2 * MIB), "3000000.0", "50.0%"),
    ]
    kept = json.loads((tmp_path / "out.json").read_text())
    assert kept["complete"] and [row["limit_fraction"] for row in kept["rows"]] == [0.5, 0.5]


def test_json_is_alone_on_stdout(measured):
    measured()
    done = perf("all_gather", "-b", "1M", "-e", "1M", "--json")
    assert json.loads(done.stdout)["rows"][0]["out_of_place"]["times_s"] == [2.0, 4.0]


def test_wrong_elements_are_an_error_and_a_machine_that_was_too_slow_returns_3(measured):
    measured(wrong=7)
    done = perf("all_gather", "-b", "1M", "-e", "1M")
    assert done.exit_code == 1 and "7 elements are wrong" in done.stderr
    measured(verdict=Verdict(False, ("tokyo → oregon carries too little",)))
    done = perf("all_gather", "-b", "1M", "-e", "1M")
    assert done.exit_code == 3 and "NOT TRUSTWORTHY" in done.stdout and "too little" in done.stdout


@pytest.mark.parametrize(("ending", "code"), [(KeyboardInterrupt(), 130), (RingroadError("tokyo died"), 1)])
def test_rows_stay_whatever_ends_the_run(tmp_path: Path, measured, ending: BaseException, code: int):
    measured(ending=ending)
    done = perf("all_gather", "-b", "1M", "-e", "1M", "-J", str(tmp_path / "out.json"))
    assert done.exit_code == code
    kept = json.loads((tmp_path / "out.json").read_text())
    assert not kept["complete"] and len(kept["rows"]) == 1


def test_a_file_that_cannot_be_written_takes_nothing_from_the_terminal(measured):
    measured()
    done = perf("all_gather", "-b", "1M", "-e", "1M", "--json", "-J", "/dev/full")
    assert done.exit_code == 1 and "the result cannot be written" in done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 1
