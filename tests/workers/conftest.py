"""A launcher on loopback, without namespaces: real gloo, no root. One import of torch serves the whole folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import DCS, MakeJob

from workers.client import WorkersClient, launch
from workers.job import Job, Rank


@pytest.fixture(scope="session")
def launcher_socket() -> Iterator[Path]:
    os.environ["PYTHONPATH"] = os.fspath(Path(__file__).parent)
    with tempfile.TemporaryDirectory(prefix="workers-") as folder:
        process = launch(Path(folder) / "launcher.sock", Path(folder) / "launcher.log")
        del os.environ["PYTHONPATH"]
        try:
            yield Path(folder) / "launcher.sock"
        finally:
            process.terminate()
            assert process.wait(10) == 0, (Path(folder) / "launcher.log").read_text()
        assert not list(Path(folder).glob("rendezvous*"))


@pytest.fixture
def client(launcher_socket: Path) -> Iterator[WorkersClient]:
    with WorkersClient(launcher_socket) as connected:
        yield connected


@pytest.fixture
def job(tmp_path: Path) -> MakeJob:
    """Jobs of four ranks on loopback, 256 KiB each in chunks of 16 KiB, with what is given."""

    def make(**fields: Any) -> Job:
        given = {
            "ranks": tuple(Rank(dc) for dc in DCS),
            "size_bytes": 256 * 1024,
            "chunk_bytes": 16 * 1024,
            "log_folder": str(tmp_path / "logs"),
            "interface": "lo",
            "timeout_s": 60.0,
        }
        return Job(**{**given, **fields})

    return make
