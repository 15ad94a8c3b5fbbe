"""What the controller process survives: vandals on the OpenFlow port, impostors, and its own death. Without root."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from fakeswitch import BARRIER_REQUEST, HELLO, MULTIPART_REQUEST, FakeSwitch, message
from test_malformed import CUT_OFF, LOOPS
from waiting import eventually
from wans import wan_of, wiring_of

from controller.client import ControllerClient, EventStream, wait_listening
from controller.settings import STACKS, ControllerConfig, ControllerSettings, save_config
from topologies.wire import WireError

WAN = wan_of({"ab": 100e6, "ac": 100e6, "bc": 100e6})
ENDS_WITHIN_S = 10.0


class Controller:
    """A controller process, its log, and a client."""

    def __init__(self, folder: Path, **settings: object) -> None:
        config = ControllerConfig(WAN, wiring_of(WAN), folder / "c.sock", ControllerSettings(**settings))
        save_config(config, folder / "c.json")
        self.log = folder / "log"
        self.socket = config.socket
        command = [sys.executable, "-m", "controller", "--config", str(folder / "c.json")]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self.port = wait_listening(self.process)
        self.client = ControllerClient(config.socket)

    def worker(self) -> int:
        """Process id of the worker at present."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def events(self) -> EventStream:
        return EventStream(self.socket)

    def end(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def _running(folder: Path, **settings: object) -> Iterator[Controller]:
    controller = Controller(folder, **settings)
    try:
        yield controller
    finally:
        controller.end()


@pytest.fixture(scope="module", params=STACKS)
def controller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with _running(tmp_path_factory.mktemp(request.param), stack=request.param) as controller:
        yield controller


@pytest.mark.parametrize("data", [*LOOPS.values(), *CUT_OFF.values()], ids=[*LOOPS, *CUT_OFF])
@pytest.mark.parametrize("known", [False, True], ids=["at once", "as a switch"])
def test_a_malformed_message_ends_its_own_connection_at_most(controller: Controller, data: bytes, known: bool):
    worker = controller.worker()
    with FakeSwitch(controller.port, dpid=1) as vandal:
        if known:
            assert vandal.serve_until(MULTIPART_REQUEST)
        vandal.send(data)
        vandal.send(message(2, b"anybody there?"))

        assert {2, 3} <= set(controller.client.status().missing)
    assert controller.worker() == worker
    eventually(lambda: controller.client.status().connected == ())


def test_a_malformed_message_is_on_record_with_who_sent_it(controller: Controller):
    with controller.events() as events, FakeSwitch(controller.port, dpid=2) as vandal:
        assert vandal.serve_until(BARRIER_REQUEST)
        vandal.send(LOOPS["CVE-2024-34488, an entry of length 0"])

        event = next(e for e in events.events(ENDS_WITHIN_S) if e["event"] == "malformed")
        assert vandal.is_closed()

    assert (event["dpid"], event["what"]) == (2, "flow entry of length 0")
    eventually(lambda: controller.client.status().connected == ())


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", message(HELLO) + b"\xff" * 64],
    ids=["HTTP", "TLS", "hello, then nonsense"],
)
def test_who_speaks_something_else_than_openflow_is_cut_off_at_once_and_on_record(controller: Controller, garbage):
    with controller.events() as events, socket.create_connection(("127.0.0.1", controller.port)) as vandal:
        vandal.settimeout(ENDS_WITHIN_S)
        vandal.sendall(garbage)

        event = next(e for e in events.events(ENDS_WITHIN_S) if e["event"] == "malformed")
        with suppress(ConnectionResetError):
            while vandal.recv(4096):
                """Its own hello comes first."""

    assert event["dpid"] is None
    assert event["what"].startswith("message of OpenFlow version")


def _serve(switch: FakeSwitch) -> threading.Thread:
    thread = threading.Thread(target=switch.serve_for, args=(ENDS_WITHIN_S,), daemon=True)
    thread.start()
    return thread


def test_of_two_switches_that_claim_one_datapath_id_the_first_stays_while_it_answers(controller: Controller):
    with (
        controller.events() as events,
        FakeSwitch(controller.port, dpid=3) as first,
        FakeSwitch(controller.port, dpid=3) as second,
    ):
        assert first.serve_until(BARRIER_REQUEST)
        serving = _serve(first)

        assert second.is_closed()

        event = next(e for e in events.events(ENDS_WITHIN_S) if e.get("what") == "duplicate")
        assert event["dpid"] == 3
        assert controller.client.status().connected == (3,)
        assert BARRIER_REQUEST not in second.seen
        first.end()
        serving.join()
    eventually(lambda: controller.client.status().connected == ())


def test_a_switch_that_connects_anew_replaces_a_connection_that_is_dead(controller: Controller):
    with FakeSwitch(controller.port, dpid=1) as first, FakeSwitch(controller.port, dpid=1) as second:
        assert first.serve_until(BARRIER_REQUEST)

        # Nobody answers at the other end of the first; it is not closed either.
        assert second.serve_until(BARRIER_REQUEST)

        assert controller.client.status().connected == (1,)
    eventually(lambda: controller.client.status().connected == ())


def test_a_switch_of_unknown_datapath_id_gets_nothing(controller: Controller):
    with FakeSwitch(controller.port, dpid=0xBAD) as stranger:
        assert stranger.is_closed()

    assert 0xBAD in controller.client.status().refused


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "is stuck"])
@pytest.mark.parametrize("stack", STACKS)
def test_a_worker_that_dies_or_is_stuck_is_replaced_and_keeps_port_socket_and_what_it_was_told(tmp_path, number, stack):
    with _running(tmp_path, stack=stack) as controller:
        controller.client.capacity({("a", "b"): 12e6}, happened_at=0.0)
        worker = controller.worker()
        with controller.events() as events:
            at = time.monotonic()
            os.kill(worker, number)

            event = next(e for e in events.events(ENDS_WITHIN_S) if e["event"] == "restart")

        status = controller.client.status()
        assert (status.port, status.restarts) == (controller.port, 1)
        assert controller.worker() != worker
        assert controller.client.view().capacities_bps["a", "b"] == 12e6
        assert event["at"] >= at
        assert (
            event["cause"]
            == {
                signal.SIGKILL: "killed by SIGKILL",
                signal.SIGSTOP: "no sign of life for 1 s",
            }[number]
        )
        assert controller.process.poll() is None
        with FakeSwitch(controller.port, dpid=1) as switch:
            assert switch.serve_until(BARRIER_REQUEST)
    assert re.search(r"warning restart count=1 cause=", controller.log.read_text())


def test_a_policy_that_takes_long_to_load_is_not_taken_for_being_stuck(controller: Controller):
    # maxmin loads compiled code, and compiles it where it has not been used before.
    with pytest.raises(WireError, match="the controller is not ready"):
        controller.client.reset("maxmin")

    assert controller.client.status().restarts == 0


def test_a_client_that_waits_while_the_worker_dies_is_answered_by_the_next(tmp_path: Path):
    with _running(tmp_path) as controller:
        os.kill(controller.worker(), signal.SIGKILL)

        assert controller.client.status().missing == (1, 2, 3)


def test_sigterm_leaves_no_worker_no_socket_and_no_memory(tmp_path: Path):
    with _running(tmp_path) as controller:
        controller.client.capacity({("a", "b"): 12e6}, happened_at=0.0)
        worker = os.pidfd_open(controller.worker())

        controller.process.terminate()

        assert controller.process.wait(ENDS_WITHIN_S) == 0
        with pytest.raises(ProcessLookupError):
            signal.pidfd_send_signal(worker, 0)
        os.close(worker)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.json", "log"]


def test_a_watchdog_that_is_killed_takes_its_worker_along(tmp_path: Path):
    with _running(tmp_path) as controller:
        worker = controller.worker()
        controller.process.kill()

        eventually(lambda: not Path(f"/proc/{worker}/exe").exists(), ENDS_WITHIN_S)
