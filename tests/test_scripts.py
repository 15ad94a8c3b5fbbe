"""The commands that people type first: their help, their refusals, and that a second set-up has nothing to do."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file())
BASH = [path for path in SCRIPTS if path.read_text().startswith("#!/usr/bin/env bash")] + [ROOT / ".ci" / "run"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user, or set up at all")


def _run(*command, **options):
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 280} | options
    return subprocess.run([str(part) for part in command], **options)


@pytest.fixture
def copy():
    """A folder with only the script for set-up in it, readable by every user of the machine."""
    with tempfile.TemporaryDirectory(prefix="ringroad-test-") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "scripts").mkdir()
        yield Path(shutil.copy(ROOT / "scripts" / "setup", Path(folder) / "scripts"))


@pytest.mark.parametrize("script", BASH, ids=lambda path: path.name)
def test_every_script_is_executable_stops_at_errors_and_is_clean_to_shellcheck(script):
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text() or "set -Eeuo pipefail" in script.read_text()
    assert _run("bash", "-n", script).returncode == 0
    if shutil.which("shellcheck"):
        done = _run("shellcheck", script)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_explains_itself(script):
    done = _run(script, "--help")

    assert done.returncode == 0, done.stderr
    assert done.stdout.lower().startswith(f"usage: scripts/{script.name}")


def test_continuous_integration_runs_what_a_person_runs_and_nothing_else():
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text().splitlines()
        if line and not line.startswith(("#", "set ", "cd "))
    ]

    assert commands == ["exec bash scripts/test"]


@needs_root
def test_a_second_set_up_finds_nothing_to_do():
    stamp = ROOT / ".venv" / "ringroad-setup.stamp"
    assert _run(ROOT / "scripts" / "setup").returncode == 0
    before = stamp.stat().st_mtime_ns

    done = _run(ROOT / "scripts" / "setup")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "setup: ready\n")
    assert stamp.stat().st_mtime_ns == before


@needs_root
def test_set_up_says_that_it_needs_root(copy):
    done = _run(copy, user=65534, group=65534, extra_groups=[])

    assert done.returncode == 1
    assert "not root" in done.stderr
    assert "remedy: sudo" in done.stderr
    assert not (copy.parents[1] / ".venv").exists()


@needs_root
def test_set_up_says_what_it_supports_when_the_distribution_is_another(copy, tmp_path):
    release = tmp_path / "os-release"
    release.write_text('VERSION_CODENAME=noble\nPRETTY_NAME="Ubuntu 24.04"\n')
    pretend = 'mount --bind "$1" /etc/os-release && exec "$2"'

    done = _run("unshare", "--mount", "bash", "-c", pretend, "bash", release, copy)

    assert done.returncode == 1
    assert "Debian 12" in done.stderr
    assert "this is Ubuntu 24.04" in done.stderr
    assert "vagrant up" in done.stderr


def test_set_up_refuses_an_option_that_it_does_not_know(copy):
    done = _run(copy, "--frobnicate")

    assert done.returncode == 1
    assert "unknown option --frobnicate" in done.stderr


@needs_root
def test_a_set_up_waits_for_another_one_in_the_same_folder_and_can_be_interrupted(copy):
    folder = os.open(copy.parents[1], os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        waiting = subprocess.Popen([copy], stderr=subprocess.PIPE, text=True, process_group=0)
        first = waiting.stderr.readline()
        os.killpg(waiting.pid, 15)
        rest = waiting.communicate(timeout=60)[1]
    finally:
        os.close(folder)

    assert "another set-up is working" in first
    assert "interrupted" in rest
    assert waiting.returncode == 130


def test_the_benchmarks_are_listed_without_being_run():
    done = _run(ROOT / ".venv" / "bin" / "python", "-m", "benchmarks", "--list", cwd=ROOT / "scripts")

    assert done.returncode == 0, done.stderr
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert listed == ["foundation", "collectives", "live", "reroute", "silence", "kernels", "wallcost"]


@pytest.mark.parametrize("option", ["--help", "-h", "--list"])
def test_benchmarks_that_are_only_asked_about_do_not_set_up(copy, option):
    bench = shutil.copy(ROOT / "scripts" / "bench", copy.parent)

    done = _run(bench, option)

    assert done.returncode == 1
    assert done.stderr.endswith("remedy: scripts/setup\n")
    assert not (copy.parents[1] / ".setup.log").exists()


def test_a_benchmark_that_does_not_exist_is_refused_before_anything_is_set_up(copy):
    copy.unlink()  # so that nothing can be set up
    (copy.parents[1] / ".venv").symlink_to(ROOT / ".venv")
    for name in ("benchmarks", "bench"):
        (copy.parent / name).symlink_to(ROOT / "scripts" / name)

    done = _run(copy.parent / "bench", "speed", env=os.environ | {"PYTHONPATH": str(ROOT)})

    assert done.returncode == 2
    assert "known: foundation" in done.stderr
