"""The label of a measurement: the machine, and the commit of a checkout."""

import json
import os
import subprocess

import pytest

from testbed import machine


@pytest.fixture
def checkout(tmp_path):
    git("init", "--quiet", cwd=tmp_path)
    (tmp_path / "file").write_text("as committed")
    git("add", "file", cwd=tmp_path)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "first", cwd=tmp_path)
    return tmp_path


def git(*arguments, cwd):
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def test_the_machine_is_described_by_what_a_reader_compares():
    described = machine.describe()

    assert described["cores"] == os.cpu_count()
    assert described["processor"]
    assert described["memory_bytes"] > 2**28
    assert json.loads(json.dumps(described)) == described


def test_a_checkout_has_a_commit_and_is_dirty_once_a_file_of_it_is_changed(checkout):
    head = git("rev-parse", "HEAD", cwd=checkout)

    (checkout / "results").write_text("not under version control")
    assert machine.commit(checkout) == {"commit": head, "dirty": False}
    (checkout / "file").write_text("changed")
    assert machine.commit(checkout) == {"commit": head, "dirty": True}


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to somebody else, which only root can")
def test_root_sees_the_commit_of_a_checkout_that_belongs_to_somebody_else(checkout):
    for path in (checkout, *checkout.rglob("*")):
        os.chown(path, 65534, 65534)

    assert machine.commit(checkout)["dirty"] is False


def test_a_folder_inside_somebody_elses_checkout_has_no_commit(checkout, tmp_path_factory):
    (checkout / "inside").mkdir()

    assert machine.commit(checkout / "inside") is None
    assert machine.commit(tmp_path_factory.mktemp("no checkout")) is None


def test_without_git_there_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")

    assert machine.commit(checkout) is None
