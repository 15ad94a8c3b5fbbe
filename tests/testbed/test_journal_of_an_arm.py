from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakeswitch import FakeSwitch
from wans import wan_of, wiring_of

from controller.client import wait_listening
from controller.settings import ControllerConfig, save_config
from testbed.arm import journal
from testbed.runfolder import RunFolder
from topologies import RingroadError

STRANGER = 0xBAD
WITHIN_S = 20.0


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[tuple[SimpleNamespace, int]]:
    """A real one of three sites: what its testbed would be, and its OpenFlow port."""
    wan = wan_of({"ab": 100e6, "ac": 100e6, "bc": 100e6})
    config = ControllerConfig(wan, wiring_of(wan), tmp_path / "controller.sock")
    save_config(config, tmp_path / "c.json")
    command = [sys.executable, "-m", "controller", "--config", str(tmp_path / "c.json")]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        yield SimpleNamespace(state=tmp_path), wait_listening(process)
        process.terminate()


def test_what_the_controller_tells_is_kept(controller: tuple[SimpleNamespace, int], tmp_path: Path):
    bed, port = controller
    kept = threading.Event()
    with RunFolder.create("test", "abcd", "", out=tmp_path / "run") as folder:

        def record(kind: str, event: dict) -> None:
            folder.append(0, "wan", kind, event)
            kept.set()

        with journal(bed, record, failed=pytest.fail), FakeSwitch(port, dpid=STRANGER) as stranger:
            assert stranger.is_closed()
            assert kept.wait(WITHIN_S)

        events = folder.read(0, "wan", "controller_events")
    assert [(event["event"], event["what"], event["dpid"]) for event in events] == [("switch", "refused", STRANGER)]


def test_a_disk_that_is_full_ends_the_arm_with_the_reason(controller: tuple[SimpleNamespace, int], tmp_path: Path):
    bed, port = controller
    stopped = threading.Event()
    with RunFolder.create("test", "abcd", "", out=tmp_path / "run") as folder:
        file = folder.path / "blocks" / "0" / "wan" / "controller_events.jsonl"
        file.parent.mkdir(parents=True)
        file.symlink_to("/dev/full")

        with (
            pytest.raises(RingroadError, match=r"controller_events\.jsonl cannot be written"),
            journal(bed, lambda kind, event: folder.append(0, "wan", kind, event), failed=lambda _: stopped.set()),
            FakeSwitch(port, dpid=STRANGER) as stranger,
        ):
            assert stranger.is_closed()
            assert stopped.wait(WITHIN_S)
