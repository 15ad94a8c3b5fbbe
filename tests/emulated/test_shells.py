"""A machine on which no namespace can be made is told so: nothing waits for a shell that never prompts."""

import os
import time

import pytest
from hoststate import marked_processes

from testbed.bed import Testbed
from testbed.emulation import nodes
from topologies import RingroadError
from topologies.builtins import builtin

pytestmark = pytest.mark.emulated


@pytest.mark.parametrize("script", ["exit 1", "sleep 1000"], ids=["fails", "is silent"])
def test_a_shell_that_does_not_start_is_given_up(tmp_path, monkeypatch, script):
    program = tmp_path / "mnexec"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(nodes, "SHELL_READY_S", 1.0)
    before = time.monotonic()
    with pytest.raises(RingroadError, match="no network namespace could be made"), Testbed(builtin("mesh4")):
        pass
    assert time.monotonic() - before < 20
    assert marked_processes() == []
