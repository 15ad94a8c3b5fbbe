"""What `ringroad doctor` finds, and how to mend it."""

import os
import subprocess
import sys

import pytest

from testbed import doctor


@pytest.fixture(scope="module")
def findings():
    return {finding.name: finding for finding in doctor.examine()}


def test_what_is_not_good_comes_with_a_remedy_and_what_is_good_with_none(findings):
    for finding in findings.values():
        assert bool(finding.remedy) == (finding.status != "good"), finding


def test_both_openflow_stacks_load_here(findings):
    assert findings["ryu"].status == findings["os_ken"].status == "good", findings


def test_a_program_that_is_not_there_is_named_with_its_package(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    found = {finding.name: finding for finding in doctor._programs()}
    assert found["iperf3"].status == "bad"
    assert "apt-get install iperf3" in found["iperf3"].remedy


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(doctor.MODULES, "no_such_package", "run scripts/setup")
    found = {finding.name: finding for finding in doctor._modules()}
    assert (found["no_such_package"].status, found["no_such_package"].remedy) == ("bad", "run scripts/setup")


def test_a_left_over_of_a_dead_run_is_named_and_a_living_one_is_no_left_over(monkeypatch):
    from testbed.emulation import state

    alive, dead = state.Owner.here(), state.Owner(1, 1, "gone", "long ago")
    monkeypatch.setattr(state, "owners", lambda: {"aaaa": dead, "bbbb": None, "cccc": alive})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = {finding.name: finding for finding in doctor._state()}
    assert "aaaa, bbbb" in found["left-overs"].found and found["left-overs"].remedy == "sudo .venv/bin/ringroad clean"
    assert f"cccc (pid {os.getpid()})" in found["other runs"].found


def test_who_cannot_read_the_owners_of_runs_takes_none_for_dead(monkeypatch):
    from testbed.emulation import state

    monkeypatch.setattr(state, "owners", lambda: {"aaaa": None})
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    (found,) = doctor._state()
    assert (found.name, found.remedy) == ("other runs", "sudo .venv/bin/ringroad doctor")
    assert "aaaa" in found.found


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else first, which only root can")
def test_somebody_who_is_not_root_is_told_so():
    script = "import os; os.setuid(65534); from testbed.doctor import _user; print(next(_user()))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "sudo" in said.stdout, said.stderr
