"""A live testbed in the foreground, without workers: what comes over its socket and is nonsense, and Ctrl-C."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.live import Client
from topologies.errors import RingroadError

pytestmark = pytest.mark.emulated

RINGROAD = [sys.executable, "-m", "testbed.cli"]


@pytest.fixture(scope="module")
def bare():
    """A testbed without workers, in the foreground; its facts. It ends by Ctrl-C, and leaves nothing."""
    process = subprocess.Popen(
        [*RINGROAD, "up", "mesh4", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    facts = json.loads(process.stdout.readline())
    try:
        yield facts
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert "taken down" in said
    assert not Path(facts["socket"]).parent.exists()


def what_can_change(client):
    """Of a snapshot, all that a request could have changed."""
    plain = client.ask("snapshot")
    held = [{k: e[k] for k in ("source", "target", "rate_bps", "up", "blackholed")} for e in plain["links"]]
    return held, plain["control"], plain["trace"], plain["ring"], plain["workers"]


def say(path, data):
    """Send bytes, and read what comes back until the other side has had enough, or has answered."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(path)
        with suppress(OSError):  # It may have said why, before it closed.
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while more := connection.recv(65536):
                received += more
        except OSError:
            pass
        return received


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
OPS = [
    "fail",
    "heal",
    "shape",
    "flap",
    "crash",
    "isolate",
    "arm",
    "reorder",
    "ring",
    "t_wan",
    "trace",
    "where",
    "check",
]
FIELDS = [
    "link",
    "site",
    "dc",
    "rate",
    "arm",
    "every",
    "order",
    "period",
    "for",
    "action",
    "trace",
    "one_way",
    "request",
]
near_requests = st.builds(
    lambda op, fields: {"op": op, "nonsense": 1, **fields},
    st.sampled_from(OPS) | st.text(max_size=8),
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=5),
)
nonsense = (
    st.binary(max_size=200)
    | json_values.map(lambda v: json.dumps(v).encode())
    | near_requests.map(lambda v: json.dumps(v).encode())
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(nonsense, min_size=1, max_size=5))
def test_nonsense_on_the_control_socket_changes_nothing_and_harms_nobody(bare, lines):
    with Client(Path(bare["socket"])) as client:
        before = what_can_change(client)
        answers = say(bare["socket"], b"\n".join(lines) + b"\n").splitlines()
        assert all("refused" in json.loads(line) for line in answers)
        assert what_can_change(client) == before


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (8 * 2**20),
        b'{"op": "fail", "link": "' + b"y" * 2**20 + b'"}\n',
        b"[" * 60_000 + b"\n",
        b'{"op": "shape", "link": "tokyo-oregon", "rate": ' + b"9" * 60_000 + b"}\n",
        b'{"op": "snapshot"',
        b"\n" * 1000,
        b'{"op": "shape", "link": "tokyo-oregon", "rate": NaN}\n',
        b'{"op": "flap", "link": "tokyo-oregon", "period": 1e-300}\n',
        b'{"op": "check", "request": {"op": "check", "request": {"op": "down"}}}\n',
    ],
    ids=[
        "endless",
        "huge name",
        "deep",
        "huge number",
        "cut off",
        "empty lines",
        "no number",
        "tiny",
        "check of check",
    ],
)
def test_a_huge_or_odd_request_changes_nothing(bare, data):
    with Client(Path(bare["socket"])) as client:
        before = what_can_change(client)
        say(bare["socket"], data)
        assert what_can_change(client) == before


@pytest.mark.parametrize(
    "data",
    [
        b'{"op": "heal", "link": "' + b"y" * (64 * 1024) + b'"}\n',
        b'{"op": "heal", "link": "' + b"y" * 2**20,
        b'{"op": "trace", "action": "start", "trace": "\\ud800.csv"}\n',
        b'{"op": "trace", "action": "start", "trace": "{kind: file, path: rates.csv}"}\n',
    ],
    ids=["a byte too long", "endless", "no path", "whose folder"],
)
def test_what_cannot_be_read_is_refused_in_words(bare, data):
    assert json.loads(say(bare["socket"], data))["refused"]["message"]


def test_the_control_socket_is_for_root_alone(bare):
    assert Path(bare["socket"]).stat().st_mode & 0o777 == 0o600
    assert Path(bare["socket"]).parent.stat().st_mode & 0o777 == 0o700
    demoted = subprocess.run(
        [*RINGROAD, "fail", "tokyo", "oregon"], capture_output=True, text=True, user=65534, group=65534, extra_groups=[]
    )
    assert demoted.returncode == 1
    assert "run it as root" in demoted.stderr


def test_who_does_not_read_is_cut_off_and_more_clients_than_allowed_are_turned_away(bare):
    path = bare["socket"]
    idle = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(80)]
    try:
        for connection in idle:
            connection.connect(path)
            connection.settimeout(5)
        assert "64 clients" in json.loads(idle[-1].makefile().read())["refused"]["message"]
    finally:
        for connection in idle:
            connection.close()
    with Client(Path(path)) as client:
        client.fail("tokyo-oregon")
        assert client.heal().targets == ("tokyo-oregon",)


def test_without_workers_verbs_of_workers_say_what_is_missing(bare):
    with Client(Path(bare["socket"])) as client:
        for ask in (lambda: client.crash("tokyo"), lambda: client.reorder(3), lambda: client.ring(None)):
            with pytest.raises(RingroadError, match="--workers"):
                ask()


def test_what_the_kernel_cannot_emulate_is_refused(bare):
    from testbed.emulation.capabilities import detect

    with Client(Path(bare["socket"])) as client:
        if detect().netem:
            assert "delay 40 ms" in client.shape("tokyo-oregon", delay_s=0.04).did
        else:
            with pytest.raises(RingroadError, match="no netem"):
                client.shape("tokyo-oregon", delay_s=0.04)
