"""Forks ranks of a process group from the test's own process, which has imported torch: what they return, or raise."""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import workers.group  # noqa: F401  (registers the backend)

HANGING_S = 150.0
"""Generous: only tells an end from a hang."""


def run_ranks(
    ranks: int, main: Callable[..., Any], *arguments: Any, backend: str = "ring", meet: bool = True
) -> list[Any]:
    """`main(*arguments)` on every rank of a default group of `backend`: the results by rank.

    With `meet` all wait for each other at the end. A rank that raises fails the test with its traceback; one that ends
    without a word gives None.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder, selectors.DefaultSelector() as selector:
        pids = []
        try:
            for rank in range(ranks):
                reader, writer = os.pipe()
                pid = os.fork()
                if pid == 0:
                    os.close(reader)
                    _be_rank(rank, ranks, Path(folder) / "store", backend, meet, writer, main, arguments)
                os.close(writer)
                pids.append(pid)
                selector.register(reader, selectors.EVENT_READ, rank)
            return _results(selector, ranks)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _results(selector: selectors.BaseSelector, ranks: int) -> list[Any]:
    said = [b""] * ranks
    deadline = time.monotonic() + HANGING_S
    try:
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            assert ready, f"hanging: ranks {[key.data for key in selector.get_map().values()]}"
            for key, _ in ready:
                data = os.read(key.fd, 2**16)
                said[key.data] += data
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    finally:
        for key in list(selector.get_map().values()):
            os.close(key.fd)
    answers = [pickle.loads(answer) if answer else None for answer in said]
    for rank, answer in enumerate(answers):
        assert not isinstance(answer, _Raised), f"rank {rank}:\n{answer.text}"
    return answers


class _Raised:
    def __init__(self, text: str) -> None:
        self.text = text


def _be_rank(
    rank: int, ranks: int, store: Path, backend: str, meet: bool, writer: int, main: Callable[..., Any], arguments: Any
) -> None:
    try:
        os.environ |= {"GLOO_SOCKET_IFNAME": "lo"}
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        timeout = timedelta(seconds=HANGING_S)
        dist.init_process_group(
            backend, store=dist.FileStore(os.fspath(store), ranks), rank=rank, world_size=ranks, timeout=timeout
        )
        answer = main(*arguments)
        if meet:
            dist.barrier()
    except BaseException:
        answer = _Raised(traceback.format_exc())
    with os.fdopen(writer, "wb") as pipe:
        pickle.dump(answer, pipe)
    os._exit(0)
