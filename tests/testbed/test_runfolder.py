"""What a run keeps, and what survives of it when something cuts it off."""

import errno
import json
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from testbed import runfolder
from testbed.runfolder import MANIFEST, RunFolder, encode, folder_name, open_run, read_lines
from topologies.errors import InputError, RingroadError

NOON = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path):
    with RunFolder.create("quick start", "k3f9", "name: quick start\n", out=tmp_path / "run", now=NOON) as made:
        made.write_json(MANIFEST, {})
        yield made


def test_a_folder_is_named_after_experiment_time_and_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    made = RunFolder.create("Übungs-Lauf №1 / final", "k3f9", "text", now=NOON)

    assert made.path == Path("runs/ubungs-lauf-no1-final-20260102T030405Z-k3f9")
    assert (tmp_path / made.path / "experiment.yaml").read_text() == "text"


def test_a_name_without_plain_letters_still_gives_a_folder():
    assert folder_name("東京", "k3f9", NOON) == "run-20260102T030405Z-k3f9"


def test_a_very_long_name_gives_a_short_folder():
    assert len(folder_name("a" * 120, "k3f9", NOON)) == 40 + len("-20260102T030405Z-k3f9")


def test_results_are_never_written_over_earlier_ones(folder):
    with pytest.raises(InputError, match="holds something already"):
        RunFolder.create("x", "k3f9", "", out=folder.path)


def test_a_run_that_could_not_begin_leaves_no_folder_and_one_that_kept_anything_does(folder, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):  # the same folder can be given again
        RunFolder.create("x", "k3f9", "", out=out).remove_unless_anything_is_kept()
    assert not out.exists()

    failed = RunFolder.create("x", "k3f9", "", out=out)
    (failed.logs / "controller.log").write_text("why")
    for kept in (failed, folder):
        kept.remove_unless_anything_is_kept()
        assert (kept.path / "experiment.yaml").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "runs").write_text("")

    with pytest.raises(RingroadError, match="cannot be written"):
        RunFolder.create("x", "k3f9", "", out=tmp_path / "runs" / "inside")


def test_a_folder_that_may_not_be_written_is_refused_with_a_remedy(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(RingroadError, match="Permission denied") as caught:
        RunFolder.create("x", "k3f9", "", out=tmp_path / "run")
    assert "--out" in caught.value.remedy


def test_records_come_back_in_order_and_by_kind(folder):
    folder.append(1, "joint", "collectives", {"index": 0})
    folder.append(1, "joint", "collectives", {"index": 1})
    folder.append(2, "joint", "faults", {"link": "tōkyō"})

    assert folder.read(1, "joint", "collectives") == [{"index": 0}, {"index": 1}]
    assert folder.read(2, "joint", "faults") == [{"link": "tōkyō"}]
    assert folder.read(2, "joint", "collectives") == []
    assert folder.arms_begun() == [(1, "joint"), (2, "joint")]


def test_an_unknown_kind_of_record_is_a_mistake_of_the_program(folder):
    with pytest.raises(ValueError, match="collectives"):
        folder.append(1, "joint", "colectives", {})


def test_every_line_is_there_for_readers_at_once(folder):
    folder.append_arm({"arm": "static"})

    assert (folder.path / "arms.jsonl").read_text() == '{"arm": "static"}\n'


def test_lines_of_several_threads_stay_whole(folder):
    def write(worker):
        for index in range(50):
            folder.append(1, "wan", "changes", {"worker": worker, "index": index, "padding": "x" * 5000})

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    records = folder.read(1, "wan", "changes")
    assert sorted((r["worker"], r["index"]) for r in records) == [(w, i) for w in range(4) for i in range(50)]


def test_a_torn_last_line_is_left_out(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"index": 0}\n{"index": 1}\n{"ind')

    assert list(read_lines(file)) == [{"index": 0}, {"index": 1}]


def test_a_last_line_without_its_end_is_left_out_even_if_it_is_json(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"index": 0}\n{"index": 1}')

    assert list(read_lines(file)) == [{"index": 0}]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"index": 0}\nnonsense\n{"index": 2}\n')

    with pytest.raises(RingroadError, match="line 2"):
        list(read_lines(file))


def test_a_file_that_is_not_there_has_no_lines(tmp_path):
    assert list(read_lines(tmp_path / "nothing.jsonl")) == []


def test_a_full_disk_is_said_and_leaves_no_half_line(folder, monkeypatch):
    folder.append_arm({"arm": "static"})
    really_write = os.write

    def half(descriptor, data):
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really_write(descriptor, data[: len(data) - 10])

    monkeypatch.setattr(runfolder.os, "write", half)
    with pytest.raises(RingroadError, match="disk is full"):
        folder.append_arm({"arm": "joint", "padding": "x" * 100})
    monkeypatch.undo()
    folder.append_arm({"arm": "wan"})

    assert folder.read_arms() == [{"arm": "static"}, {"arm": "wan"}]


def test_whole_files_are_replaced_in_one_step(folder):
    folder.write_json("gate.json", {"trustworthy": True})
    folder.write_json("gate.json", {"trustworthy": False})

    assert folder.read_json("gate.json") == {"trustworthy": False}
    assert [file.name for file in folder.path.glob(".*")] == []


def test_a_file_that_was_damaged_is_named(folder):
    (folder.path / "gate.json").write_text("{")

    with pytest.raises(RingroadError, match=r"gate\.json is not JSON"):
        folder.read_json("gate.json")


def test_figures_that_are_not_finite_become_null():
    assert json.loads(encode({"gain": float("inf"), "list": [float("nan"), 1.5]})) == {
        "gain": None,
        "list": [None, 1.5],
    }


def test_dataclasses_and_paths_have_a_json_form():
    @dataclass
    class Point:
        x: int

    assert encode([Point(1), Path("/tmp")]) == '[{"x": 1}, "/tmp"]'


def test_a_run_is_opened_by_its_folder(folder):
    assert open_run(folder.path).path == folder.path


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()], ids=["missing", "not a run"])
def test_what_is_no_run_folder_is_refused(tmp_path, make):
    make(tmp_path / "other")

    with pytest.raises(InputError, match="run folder"):
        open_run(tmp_path / "other")
