from __future__ import annotations

import sys
from pathlib import Path

import pytest
from views import DIAMOND, view_of
from wans import wan_of

from controller.policies import NAMES, make_policy
from controller.settings import ControllerSettings
from topologies import InputError

OWN = """
class Bare:
    def decide(self, view, now):
        return view.routing

class Set:
    def __init__(self, settings):
        self.margin = settings.margin

    def decide(self, view, now):
        return view.routing

class Mute:
    pass

class Narrow:
    def decide(self):
        return {}

class Greedy:
    def __init__(self, one, two):
        pass

class Broken:
    def __init__(self):
        raise RuntimeError("no file of weights")
"""


@pytest.fixture(autouse=True)
def own_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_paths.py").write_text(OWN)
    (tmp_path / "faulty_paths.py").write_text("raise OSError('no such device')\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_the_names_of_ours():
    assert NAMES == ("shortest", "widest", "maxmin", "ecmp")


def test_a_persons_own_class_is_made_with_or_without_the_settings():
    view = view_of(wan_of(DIAMOND))

    assert make_policy("own_paths:Bare", ControllerSettings()).decide(view, 0.0) == view.routing
    assert make_policy("own_paths:Set", ControllerSettings(margin=0.25)).margin == 0.25


def test_a_persons_own_module_lies_in_the_folder_where_the_command_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "local_paths.py").write_text(OWN)
    monkeypatch.chdir(tmp_path / "here")
    before = list(sys.path)

    assert make_policy("local_paths:Bare", ControllerSettings())
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("widset", "did you mean 'widest'"),
        ("missing_paths:Any", "cannot be imported: ModuleNotFoundError"),
        ("faulty_paths:Any", "cannot be imported: OSError: no such device"),
        (":Any", "cannot be imported: ValueError"),
        ("own_paths:", "there is no ''"),
        ("own_paths:Bear", "did you mean 'Bare'"),
        ("own_paths:Mute", r"no method decide\(view, now\)"),
        ("own_paths:Narrow", r"no method decide\(view, now\)"),
        ("own_paths:Greedy", "let it take nothing, or the controller's settings"),
        ("own_paths:Broken", "RuntimeError: no file of weights"),
    ],
)
def test_a_policy_that_cannot_be_had_is_refused_with_the_reason(name: str, says: str):
    with pytest.raises(InputError, match=says):
        make_policy(name, ControllerSettings())
