"""A setting of the whole machine: raised while somebody needs it, put back by the last. Not on the real file."""

import pytest

from testbed.emulation import hostsettings, state


@pytest.fixture
def setting(tmp_path, monkeypatch):
    file = tmp_path / "max_map_count"
    file.write_text("65530")
    monkeypatch.setattr(hostsettings, "MAX_MAP_COUNT", file)
    monkeypatch.setattr(state, "STATE_ROOT", tmp_path / "state")
    return file


def begin_run(run_id):
    state.make_state_root()
    state.make_state_folder(run_id)


def test_it_is_raised_for_a_run_and_put_back_after_it(setting):
    begin_run("aaaa")
    with hostsettings.many_mappings("aaaa") as said:
        assert setting.read_text() == "4194304"
        assert said == "vm.max_map_count: 65530 → 4194304 until the run ends"
    assert setting.read_text() == "65530"


def test_the_last_of_two_runs_puts_it_back(setting):
    begin_run("aaaa")
    begin_run("bbbb")
    hostsettings.take("aaaa")
    hostsettings.take("bbbb")
    assert not hostsettings.give_back("aaaa")
    assert setting.read_text() == "4194304"
    assert hostsettings.give_back("bbbb")
    assert setting.read_text() == "65530"


def test_a_run_that_is_dead_needs_nothing(setting):
    # given a run that was killed: its folder is gone
    hostsettings.take("dead")
    assert hostsettings.give_back()
    assert setting.read_text() == "65530"


def test_what_is_enough_already_is_left_alone(setting):
    setting.write_text("5000000")
    assert hostsettings.take("aaaa") == ""
    assert not hostsettings.give_back("aaaa")
    assert setting.read_text() == "5000000"


def test_what_somebody_else_has_set_meanwhile_stays(setting):
    begin_run("aaaa")
    with hostsettings.many_mappings("aaaa"):
        setting.write_text("9000000")
    assert setting.read_text() == "9000000"


def test_where_it_cannot_be_changed_it_is_said_and_nothing_is_left(setting, monkeypatch):
    monkeypatch.setattr(hostsettings, "MAX_MAP_COUNT", Unwritable(setting))
    assert "cannot be changed here (Read-only file system)" in hostsettings.take("aaaa")
    assert not hostsettings.give_back("aaaa")


class Unwritable:
    def __init__(self, path):
        self._path = path

    def read_text(self):
        return self._path.read_text()

    def write_text(self, _):
        raise OSError(30, "Read-only file system")
