"""Who owns a run, whether the owner lives, and the lock on the machine; in a folder of the test's own."""

import json
import os
import subprocess
import sys

import pytest

from testbed.emulation import state
from testbed.emulation.state import MachineLock, Owner, make_state_folder, start_ticks
from topologies import RingroadError


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(state, "LOCK_FILE", tmp_path / "bed.lock")
    return tmp_path


def test_a_state_folder_belongs_to_this_process_and_is_private():
    folder = make_state_folder("k3f9")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert state.owners()["k3f9"].pid == os.getpid()
    assert state.living_runs() == {"k3f9"}


def test_an_owner_that_has_ended_is_dead_even_when_its_pid_is_used_again(root):
    make_state_folder("k3f9")
    file = root / "k3f9" / "owner.json"
    plain = json.loads(file.read_text())
    file.write_text(json.dumps({**plain, "start_ticks": plain["start_ticks"] - 1}))
    assert not state.owners()["k3f9"].alive
    assert state.living_runs() == set()


def test_a_folder_whose_owner_cannot_be_read_is_nobodys(root):
    make_state_folder("k3f9")
    (root / "k3f9" / "owner.json").write_text("{")
    assert state.owners() == {"k3f9": None}


def test_folders_that_are_no_runs_are_left_out(root):
    for name in ("K3F9", "k3f", "lost+found"):
        (root / name).mkdir()
    assert state.owners() == {}


def test_a_folder_of_a_maker_that_died_before_it_was_named_is_found(root):
    gone = subprocess.Popen(["true"])
    gone.wait()
    (root / f".k3f9.{gone.pid}").mkdir()
    (root / f".k3f8.{os.getpid()}").mkdir()
    assert [folder.name for folder in state.unfinished_folders()] == [f".k3f9.{gone.pid}"]


def test_a_process_that_ended_and_waits_to_be_reaped_has_no_start():
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert start_ticks(process.pid) is None
    process.wait()


def test_whoever_comes_second_is_told_who_holds_the_machine():
    first, second = MachineLock(), MachineLock()
    first.take("k3f9")
    here = Owner.here()
    with pytest.raises(RingroadError) as caught:
        second.take("a111")
    assert f"run k3f9, pid {os.getpid()} ({here.command})" in str(caught.value)
    first.release()
    second.take("a111")
    second.release()


def test_a_lock_does_not_outlive_its_holder_however_it_ends(root):
    script = (
        "import sys, time; from pathlib import Path; from testbed.emulation import state\n"
        f"state.STATE_ROOT = Path({str(root)!r}); state.LOCK_FILE = state.STATE_ROOT / 'bed.lock'\n"
        "lock = state.MachineLock(); lock.take('k3f9'); print(flush=True); time.sleep(1000)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    mine = MachineLock()
    try:
        holder.stdout.readline()
        with pytest.raises(RingroadError, match=f"pid {holder.pid}"):
            mine.take("a111")
    finally:
        holder.kill()  # nothing else ends it
        holder.wait()
        holder.stdout.close()
    mine.take("a111")
    mine.release()


def test_clean_up_without_root_is_refused_before_any_run_is_looked_at(monkeypatch):
    from testbed.emulation.clean import clean

    make_state_folder("k3f9")
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(RingroadError, match="only root"):
        clean()
