"""A run folder that somebody has damaged is reported on, or viewed, as far as it goes, or refused in words.

Never a traceback.
"""

import json
import shutil

import pytest
from synthetic import make_run

from testbed.live.web.recording import Recording
from testbed.report.make import make_report
from testbed.runfolder import open_run
from topologies.errors import RingroadError

ARM = "blocks/1/static/"
FILES = ["manifest.json", "gate.json", "arms.jsonl", ARM + "collectives.jsonl", ARM + "changes.jsonl"]


def without_values(file):
    lines = [json.dumps(dict.fromkeys(json.loads(line))) for line in file.read_text().splitlines()]
    file.write_text("\n".join(lines) + "\n")


def to_folder(file):
    file.unlink()
    file.mkdir()


DAMAGES = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_text(""),
    "half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "not text": lambda file: file.write_bytes(b"\xff\xfe\x00\n"),
    "nested": lambda file: file.write_text("[" * 100_000 + "\n"),
    "a list": lambda file: file.write_text("[]\n"),
    "without keys": lambda file: file.write_text("{}\n"),
    "a folder": to_folder,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("whole") / "run", blocks=1, arms=["static"]).path


def view(path):
    recording = Recording(open_run(path))
    recording.scene()
    for block in recording.blocks:
        recording.block(block)


@pytest.mark.parametrize("look", [make_report, view])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [*DAMAGES, "without values"])
def test_a_damaged_file_is_no_traceback(whole, tmp_path, look, name, damage):
    shutil.copytree(whole, tmp_path / "run")
    if damage != "without values":
        DAMAGES[damage](tmp_path / "run" / name)
    elif name.endswith(".jsonl"):
        without_values(tmp_path / "run" / name)
    try:
        look(tmp_path / "run")
    except RingroadError as error:
        assert error.remedy
        assert str(tmp_path) in str(error)
