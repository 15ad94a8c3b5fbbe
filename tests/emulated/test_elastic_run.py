"""`ringroad run` of an elastic experiment, end to end: a DC's worker is killed and comes back while both loops act."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.emulated

KIB = 2**10

ELASTIC = {
    "name": "tokyo goes and comes back",
    "wan": "mesh4",
    "trace": {"kind": "constant", "rate": "20mbit"},
    "faults": [{"kind": "crash", "dc": "tokyo", "at": "1500ms", "for": "2s"}],
    "arms": ["static", "joint"],
    "blocks": 1,
    "payload": "128KiB",
    "collectives": 12,
    "pacing": {"every": "500ms"},
    "reorder_every": 3,
    "agent": {"source": "feed"},
    "controller": {"policy": "maxmin", "demands": "announced"},
    "elastic": True,
    "seed": 1,
}


def test_a_run_goes_on_while_a_dc_is_gone_and_says_so(tmp_path: Path):
    file, out = tmp_path / "experiment.yaml", tmp_path / "run"
    file.write_text(yaml.safe_dump(ELASTIC))
    command = [sys.executable, "-m", "testbed.cli", "run", str(file), "--out", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 3), done.stderr
    summary = json.loads(done.stdout)
    said = " ".join(summary["notes"])
    assert "tokyo left, its worker was killed by SIGKILL: 2 times" in said and "tokyo came back: 2 times" in said
    for arm in ("static", "joint"):
        left, back = (json.loads(line) for line in (out / "blocks" / "1" / arm / "memberships.jsonl").open())
        assert [gone["dc"] for gone in left["left"]] == [come["dc"] for come in back["joined"]] == ["tokyo"]
        assert max(left["pause_s"], back["pause_s"]) < 5.0
        collectives = [json.loads(line) for line in (out / "blocks" / "1" / arm / "collectives.jsonl").open()]
        assert [c["index"] for c in collectives] == list(range(12)) and all(c["verified"] for c in collectives)
        # four DCs, then three, then four again; the limit is that of those who took part: 128 KiB for each other one
        counts = [len(c["members"]) for c in collectives]
        assert counts[0] == counts[-1] == 4 and 3 in counts
        for c in collectives:
            if c["attempts"] == 1:
                assert c["limit_s"] == pytest.approx((len(c["members"]) - 1) * 128 * KIB * 8 / 60e6, rel=0.01)
