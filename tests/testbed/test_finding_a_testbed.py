"""Which testbed verbs find: one that is up, that is coming up, that was killed, that has ended by itself."""

import json

import pytest

from testbed.emulation import state
from testbed.live import client
from testbed.live.client import NoTestbed, find_socket
from testbed.live.protocol import SOCKET, STARTING
from topologies.errors import RingroadError


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(state, "ENDED_FILE", tmp_path / "ended.json")
    monkeypatch.setattr(client, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(client.os, "geteuid", lambda: 0)
    return tmp_path


def killed(folder):
    file = folder / "owner.json"
    plain = json.loads(file.read_text())
    file.write_text(json.dumps({**plain, "start_ticks": plain["start_ticks"] - 1}))


def test_the_one_that_is_up_is_found_among_runs_that_are_none():
    state.make_state_folder("aaaa")
    live = state.make_state_folder("k3f9")
    (live / STARTING).touch()
    (live / SOCKET).touch()
    assert find_socket() == live / SOCKET


def test_one_that_is_coming_up_in_another_kernel_is_named():
    (state.make_state_folder("k3f9") / STARTING).touch()
    with pytest.raises(NoTestbed, match="a testbed is coming up, run k3f9"):
        find_socket()


@pytest.mark.parametrize("name", [STARTING, SOCKET])
def test_one_whose_process_was_killed_is_told_with_the_remedy(name):
    folder = state.make_state_folder("k3f9")
    (folder / name).touch()
    killed(folder)
    with pytest.raises(RingroadError, match="was killed") as caught:
        find_socket()
    assert "ringroad clean" in caught.value.remedy


def test_how_the_last_one_ended_by_itself_is_told_until_it_is_forgotten():
    state.note_end("k3f9", "the user-mode kernel (pid 7) has died; the end of its console:\n    exit")
    with pytest.raises(NoTestbed, match=r"run k3f9 ended by itself at .*: the user-mode kernel \(pid 7\) has died\n"):
        find_socket()
    assert state.forget_end()
    assert not state.forget_end()
    with pytest.raises(NoTestbed, match=r"no live testbed runs on this machine\n"):
        find_socket()
