"""Reading the controller over HTTP: what it answers, whom it refuses, and that nobody can hold it up. No root."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from fakeswitch import FakeSwitch
from wans import wan_of, wiring_of

from controller.client import ControllerClient, wait_listening
from controller.settings import STACKS, ControllerConfig, ControllerSettings, save_config
from topologies import RingroadError

WAN = wan_of({"ab": 100e6, "ac": 100e6, "bc": 100e6})
WITHIN_S = 10.0
UNKNOWN_DPID = 0xBAD


@pytest.fixture(scope="module", params=STACKS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerClient]:
    folder = tmp_path_factory.mktemp("http")
    settings = ControllerSettings(stack=request.param, http_port=0)
    config = ControllerConfig(WAN, wiring_of(WAN), folder / "c.sock", settings)
    save_config(config, folder / "c.json")
    command = [sys.executable, "-m", "controller", "--config", str(folder / "c.json")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        wait_listening(process)
        with ControllerClient(config.socket) as client:
            yield client
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.fixture
def port(client: ControllerClient) -> int:
    return client.status().http_port


def _get(port: int, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


def _json(port: int, path: str) -> dict:
    return json.loads(_get(port, path).read())


def _raw(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as connection:
        connection.sendall(data)
        answer = b""
        while received := connection.recv(65536):
            answer += received
    return answer


def test_health_says_what_is_missing_with_a_status_that_a_probe_understands(port: int):
    answer = _get(port, "/v1/health")

    assert answer.status == 503
    health = json.loads(answer.read())
    assert (health["health"], health["missing"], health["http_port"]) == ("starting", [1, 2, 3], port)


def test_topology_has_every_site_and_what_each_edge_is_known_to_carry_and_carries(client: ControllerClient, port: int):
    client.true_capacity({("a", "b"): 5e6})
    client.capacity({("a", "b"): 7e6}, happened_at=0.0)

    topology = _json(port, "/v1/topology")

    assert [(site["site"], site["dpid"], site["connected"]) for site in topology["sites"]] == [
        ("a", 1, False),
        ("b", 2, False),
        ("c", 3, False),
    ]
    edges = {(edge["from"], edge["to"]): edge for edge in topology["edges"]}
    assert len(edges) == 6
    assert (edges["a", "b"]["capacity_known_bps"], edges["a", "b"]["capacity_true_bps"]) == (7e6, 5e6)
    assert (edges["b", "c"]["capacity_known_bps"], edges["b", "c"]["capacity_true_bps"]) == (100e6, None)


def test_a_true_capacity_of_an_edge_that_does_not_exist_is_refused(client: ControllerClient):
    with pytest.raises(RingroadError, match="no site 'z'"):
        client.true_capacity({("a", "z"): 5e6})


def test_paths_has_every_pair_with_its_path_and_the_others_that_are_installed(port: int):
    paths = _json(port, "/v1/paths")

    assert [pair["pair"] for pair in paths["pairs"]] == [list(pair) for pair in ("ab", "ac", "ba", "bc", "ca", "cb")]
    first = paths["pairs"][0]
    assert (first["path"], first["tunnels"]) == (["a", "b"], [["a", "b"], ["a", "c", "b"]])
    assert (first["confirmed"], first["active"], first["pinned"]) == (False, False, False)


def test_metrics_are_in_the_format_of_prometheus(port: int):
    answer = _get(port, "/metrics")

    assert answer.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.read().decode().splitlines()
    assert "ringroad_switches_expected 3.0" in lines
    assert 'ringroad_capacity_known_bits_per_second{source="b",target="c"} 1e+08' in lines


def test_events_come_as_they_happen(client: ControllerClient, port: int):
    stream = _get(port, "/v1/events")
    assert stream.getheader("Content-Type") == "text/event-stream"
    assert stream.readline() == b"retry: 1000\n"
    assert stream.readline() == b"\n"

    with FakeSwitch(client.status().port, UNKNOWN_DPID) as stranger:
        assert stranger.is_closed()

    assert stream.readline() == b"event: switch\n"
    name, _, event = stream.readline().decode().partition(": ")
    assert name == "data"
    assert {key: json.loads(event)[key] for key in ("event", "dpid", "what")} == {
        "event": "switch",
        "dpid": UNKNOWN_DPID,
        "what": "refused",
    }
    stream.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_nothing_but_get_is_allowed(port: int, method: str):
    answer = _get(port, "/v1/paths", method)

    assert (answer.status, answer.getheader("Allow")) == (405, "GET")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "10.0.0.1"])
def test_a_host_header_that_is_not_loopbacks_is_refused(port: int, host: str):
    assert _get(port, "/v1/health", Host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1:1"])
def test_loopback_may_be_called_by_both_names_and_through_a_tunnel(port: int, host: str):
    assert _get(port, "/v1/topology", Host=host).status == 200


def test_a_path_that_does_not_exist_is_answered_with_those_that_do(port: int):
    answer = _get(port, "/v1/everything")

    assert answer.status == 404
    assert "/v1/health" in json.loads(answer.read())["error"]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /v1/health HTTP/1.1\r\n\r\n", 403),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", 403),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET /v1/health\r\n\r\n", 400),
        (b"\x00\xff\xfe\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 20_000, 431),
    ],
    ids=["no host", "two hosts", "a body", "HTTP 0.9", "garbage", "endless"],
)
def test_a_request_that_is_none_is_refused_with_its_reason(port: int, request_bytes: bytes, status: int):
    answer = _raw(port, request_bytes)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_who_says_nothing_or_does_not_read_holds_up_nobody(client: ControllerClient, port: int):
    silent = [socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) for _ in range(8)]
    deaf = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
    deaf.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert _get(port, "/v1/topology").status == 200
    assert client.status().http_port == port
    for connection in (*silent, deaf):
        connection.close()


def test_more_connections_than_it_wants_are_turned_away_until_others_end(port: int):
    held = [socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) for _ in range(64)]

    assert _get(port, "/v1/topology").status == 503
    for connection in held:
        connection.sendall(b"\r\n\r\n")
        while connection.recv(65536):
            pass
        connection.close()
    assert _get(port, "/v1/topology").status == 200
