"""Around the boot of a user-mode kernel: the command inside, memory, silence, both clocks, processors with more."""

import sys

import pytest

from testbed.kernels import memory, xstate
from testbed.kernels.inside import is_inside, ran_on
from testbed.kernels.relaunch import this_command
from testbed.kernels.stillness import Stillness
from testbed.progress import Lines
from topologies.errors import RingroadError


def test_the_command_inside_is_the_one_outside_with_its_new_options_after_the_verb(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ringroad", "exec", "--wan", "six", "--", "python", "train.py", "--out", "mine"])
    assert this_command(["--out", "runs/x"])[1:] == [
        *("-m", "testbed.cli", "exec", "--out", "runs/x"),
        *("--wan", "six", "--", "python", "train.py", "--out", "mine"),
    ]


def test_a_machines_own_kernel_is_called_native():
    assert not is_inside()
    assert (ran_on()["kernel"], ran_on()["mode"]) == ("native", "this machine's own kernel, in real time")


@pytest.mark.parametrize(("flags", "needed"), [("fpu avx512f amx_tile sse", True), ("fpu avx512f sse", False)])
def test_only_processors_with_amx_need_the_library(flags, needed):
    assert xstate.is_needed(flags) == needed


def test_memory_grows_with_ranks_and_shards():
    # 1.5 GiB + 4 × 200 MiB + 2 × 4 × 5 × 8 MiB = 1536 + 800 + 320 MiB
    assert memory.memory_for(4, 8 * 2**20) == 2656 * 2**20


def test_a_machine_with_too_little_memory_is_told_what_is_needed_and_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "_available_bytes", lambda: 2**30)
    with pytest.raises(RingroadError, match="needs 2 GiB of memory, and 1 GiB are free"):
        memory.check(2**31)


def test_a_kernel_in_real_time_is_still_after_a_minute_of_silence():
    kernel = Stillness()
    heard_at = kernel._heard_at
    assert kernel.look(heard_at + 59) == ""
    assert kernel.look(heard_at + 61) == "the user-mode kernel has said nothing for 61 s"
    assert kernel.virtual_s() is None


def test_lines_of_a_run_in_virtual_time_begin_with_both_clocks(capsys):
    progress = Lines()
    progress.phase("coming up")
    progress.clocks(1.5, 30.0)
    progress.phase("block 1 of 1: static")
    progress.clocks(2.0, 61.0)
    assert capsys.readouterr().err.splitlines() == [
        "coming up",
        "[virtual 1.5 s, wall 30 s] block 1 of 1: static",
        "[virtual 2 s, wall 61 s] …",
    ]
