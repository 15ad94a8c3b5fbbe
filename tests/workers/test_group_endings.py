"""The interpreter of a rank ends as it should, whatever is under way and whether or not the script ends its group.

A thread that is in gloo then, or lets go of what is gloo's, would have C++ abort the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
import threading
import torch
import torch.distributed as dist
import workers.group

rank, store = int(sys.argv[1]), dist.FileStore(sys.argv[2], 2)
dist.init_process_group("ring", store=store, rank=rank, world_size=2)
"""

UNDER_WAY = {
    "nothing": "",
    "a bulk collective": "work = dist.all_reduce(torch.ones(4_000_000), async_op=True)",
    "a small collective": "work = dist.all_reduce(torch.ones(4), async_op=True)",
    "large messages": "work = dist.all_to_all_single(torch.empty(4_000_000), torch.ones(4_000_000), async_op=True)",
    "a callback": "dist.all_reduce(torch.ones(400_000), async_op=True).get_future().then(lambda future: print('back'))",
    "a collective that one rank does not begin": "work = rank or dist.all_reduce(torch.ones(400_000), async_op=True)",
}


def run(tmp_path: Path, *texts: str, first: str = "") -> list[subprocess.CompletedProcess[str]]:
    """Two ranks, each with a text, or both with the same; `first` comes before all else."""
    environment = os.environ | {"PYTHONPATH": os.fspath(ROOT), "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", f"{first}{SCRIPT}{texts[rank % len(texts)]}", str(rank), tmp_path / "store"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *texts)
        for process, texts in zip(processes, said, strict=True)
    ]


@pytest.mark.parametrize("last", ["dist.destroy_process_group()", ""], ids=["in order", "without a word"])
@pytest.mark.parametrize("under_way", UNDER_WAY)
def test_the_interpreter_ends_well(tmp_path: Path, under_way: str, last: str):
    for rank in run(tmp_path, f"{UNDER_WAY[under_way]}\n{last}"):
        assert (rank.returncode, rank.stderr) == (0, "")
        assert rank.stdout == ("back\n" if under_way == "a callback" else "")


def test_a_thread_of_the_script_that_still_waits_does_not_abort_the_interpreter(tmp_path: Path):
    waits = """
def wait():
    ready.set()
    try:
        dist.recv(torch.empty(4), 1 - rank)
    except RuntimeError:
        pass  # it may or may not come to that before the end
ready = threading.Event()
threading.Thread(target=wait, daemon=True).start()
ready.wait()
dist.barrier()
"""
    for rank in run(tmp_path, waits):
        assert rank.returncode == 0, rank.stderr


def test_an_error_ends_the_rank_at_once_whatever_is_under_way_and_the_others_are_told(tmp_path: Path):
    waiting, failing = run(
        tmp_path,
        "dist.recv(torch.empty(4), 1)",
        f"{UNDER_WAY['a bulk collective']}\nraise ValueError('of the script')",
    )
    assert failing.returncode == 1
    assert failing.stderr.splitlines()[-1].endswith("ValueError: of the script")
    assert waiting.returncode == 1
    assert "rank 1 (" in waiting.stderr.splitlines()[-1]
    assert "ended with an error" in waiting.stderr.splitlines()[-1]


def test_handlers_that_run_after_it_may_still_use_the_group(tmp_path: Path):
    # What is registered last runs first: the backend's is registered after this, when it is imported.
    handler = """
def handler():
    for size in (4, 400_000):
        total = torch.ones(size)
        dist.all_reduce(total)
        print(total.sum().item())
"""
    for rank in run(tmp_path, handler, first="import atexit; atexit.register(lambda: handler())"):
        assert (rank.returncode, rank.stderr) == (0, "")
        assert rank.stdout == "8.0\n800000.0\n"
