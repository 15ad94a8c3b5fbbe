"""A program that is missing is named with what to install, before anything is brought up."""

import pytest

from testbed.emulation.programs import PROGRAMS, require
from testbed.experiment import load_experiment
from testbed.progress import Reporter
from testbed.runner import run_experiment
from topologies.errors import RingroadError


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_missing_program_is_named_with_its_package(monkeypatch, program):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RingroadError, match=f"{program} is not installed") as caught:
        require(program)
    assert f"apt-get install {PROGRAMS[program]}" in caught.value.remedy


def test_a_run_looks_for_its_programs_before_it_makes_its_folder(monkeypatch, tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("{name: x, wan: mesh4, payload: 1MiB, collectives: 20}")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RingroadError, match="not installed"):
        run_experiment(load_experiment(file), Reporter(), tmp_path / "run")
    assert not (tmp_path / "run").exists()
