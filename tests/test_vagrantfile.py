"""The Vagrantfile, as the real `vagrant` reads it. No virtual machine is started."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

VAGRANTFILE = Path(__file__).parents[1] / "Vagrantfile"

needs_vagrant = pytest.mark.skipif(not shutil.which("vagrant"), reason="no vagrant here: scripts/setup --test")


@pytest.fixture
def validate(tmp_path):
    """Validate a copy, so that nothing is written next to the original, with some environment variables set."""
    shutil.copy(VAGRANTFILE, tmp_path)

    def _validate(**variables):
        environment = os.environ | {"VAGRANT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)} | variables
        return subprocess.run(
            ["vagrant", "validate", "--ignore-provider"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    return _validate


@needs_vagrant
def test_vagrant_accepts_it(validate):
    done = validate()

    assert done.returncode == 0, done.stdout + done.stderr


@needs_vagrant
def test_the_size_of_the_machine_is_set_by_environment_variables(validate):
    assert validate(RINGROAD_CPUS="8", RINGROAD_MEMORY="16384").returncode == 0


@needs_vagrant
@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("RINGROAD_CPUS", "many", "RINGROAD_CPUS=2 vagrant up"),
        ("RINGROAD_CPUS", "1", "RINGROAD_CPUS=2 vagrant up"),
        ("RINGROAD_MEMORY", "4GB", "RINGROAD_MEMORY=4096 vagrant up"),
    ],
)
def test_a_size_that_is_no_number_or_too_small_is_refused_with_a_remedy(validate, variable, value, remedy):
    done = validate(**{variable: value})

    assert done.returncode != 0
    assert remedy in done.stderr
    assert repr(value).replace("'", '"') in done.stderr


def test_forwarded_ports_are_on_the_loopback_of_the_host_alone():
    ports = [line for line in VAGRANTFILE.read_text().splitlines() if '"forwarded_port"' in line]

    assert ports
    assert [line for line in ports if 'host_ip: "127.0.0.1"' not in line] == []


def test_the_machine_is_set_up_then_examined_then_tried():
    provisioners = re.findall(r'config\.vm\.provision "(\w+)"', VAGRANTFILE.read_text())

    assert provisioners == ["setup", "doctor", "selftest"]


def test_versions_have_a_minimum():
    text = VAGRANTFILE.read_text()

    assert re.search(r'Vagrant\.require_version ">= [\d.]+"', text)
    assert re.search(r'config\.vm\.box_version = ">= 12\.[\d.]+"', text)
