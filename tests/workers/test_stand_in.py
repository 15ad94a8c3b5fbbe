"""A script that asks for gloo, or for nothing, and imports nothing of Ringroad runs on the `ring` backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from topologies import wire

ROOT = Path(__file__).parents[2]
SCRIPT = """
import torch
import torch.distributed as dist
dist.init_process_group({asked}store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(3)
dist.all_reduce(tensor)
print(dist.get_backend(), type(dist.group.WORLD).__name__, dist.get_backend(dist.new_group([0])))
dist.destroy_process_group()
"""


def run(folder: Path, asked: str, **environment: str) -> subprocess.CompletedProcess:
    """With the entry point that `ringroad exec` gives to torch."""
    plugin = folder / "stand_in-1.dist-info"
    plugin.mkdir(exist_ok=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: stand-in\nVersion: 1\n")
    (plugin / "entry_points.txt").write_text("[torch.backends]\nstand_in = workers.stand_in:autoload\n")
    given = os.environ | {"PYTHONPATH": f"{folder}:{ROOT}"} | environment
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(asked=asked)], env=given, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("asked", "meaning", "said"),
    [
        ("'gloo', ", "ring", "ring RingProcessGroup ring"),
        ("", "ring", "ring RingProcessGroup ring"),
        ("backend='cpu:gloo', ", "ring", "ring RingProcessGroup ring"),
        ("'ring', ", "gloo", "ring RingProcessGroup ring"),
        ("'gloo', ", "gloo", "gloo ProcessGroup gloo"),
    ],
)
def test_gloo_means_what_the_environment_says(tmp_path, asked, meaning, said):
    done = run(tmp_path, asked, RINGROAD_GLOO=meaning)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == said


@pytest.mark.parametrize("meaning", ["ring", "gloo"])
def test_who_started_the_script_is_told_when_it_has_joined(tmp_path, meaning):
    path = tmp_path / "records.sock"
    with wire.listen(path) as server:
        done = run(
            tmp_path,
            "'gloo', ",
            RINGROAD_GLOO=meaning,
            RANK="5",
            RINGROAD_AGENT=json.dumps({"records_socket": str(path)}),
        )
        connection, _ = server.accept()
        with connection:
            assert list(wire.messages(connection)) == [{"joined": 5}]
    assert done.returncode == 0, done.stderr


def test_nothing_changes_where_the_environment_says_nothing(tmp_path):
    done = run(tmp_path, "'gloo', ")
    assert done.stdout.strip() == "gloo ProcessGroup gloo"


def test_an_environment_that_says_something_else_is_refused(tmp_path):
    done = run(tmp_path, "'gloo', ", RINGROAD_GLOO="nccl")
    assert done.returncode != 0
    assert "RINGROAD_GLOO" in done.stderr
