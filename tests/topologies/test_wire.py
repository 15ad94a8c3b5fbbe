from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from topologies import wire
from topologies.wire import Client, WireError


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Starts a server that hands its first connection to a function."""
    server = wire.listen(tmp_path / "s")
    threads: list[threading.Thread] = []

    def _serve(answer: Callable[[socket.socket], None]) -> Path:
        def _accept() -> None:
            connection, _ = server.accept()
            with connection:
                answer(connection)

        threads.append(threading.Thread(target=_accept))
        threads[0].start()
        return tmp_path / "s"

    yield _serve
    for thread in threads:
        thread.join(timeout=30)
    server.close()


def echo(connection: socket.socket) -> None:
    for message in wire.messages(connection):
        wire.send(connection, {"event": "seen", "op": message["op"]})
        wire.send(connection, {"reply": message})


def test_a_request_gets_its_reply_and_events_are_handed_on(serve):
    events: list[object] = []

    with Client(serve(echo), on_event=events.append) as client:
        reply = client.ask("move", pair=["tōkyō", "oregon"])

    assert reply == {"reply": {"op": "move", "pair": ["tōkyō", "oregon"]}}
    assert events == [{"event": "seen", "op": "move"}]


def test_only_the_owner_may_connect(tmp_path: Path):
    with wire.listen(tmp_path / "s"):
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600


def test_an_error_of_the_other_side_is_raised_here(serve):
    def refuse(connection: socket.socket) -> None:
        connection.recv(4096)
        wire.send(connection, {"error": "no such pair"})

    path = serve(refuse)

    with Client(path) as client, pytest.raises(WireError, match="no such pair"):
        client.ask("move")


def test_a_connection_that_closes_instead_of_answering_is_said(serve):
    with (
        Client(serve(lambda connection: None)) as client,
        pytest.raises(WireError, match=r"closed|cannot send|no reply"),
    ):
        client.ask("move")


def test_a_reply_that_does_not_come_ends_the_wait(serve):
    done = threading.Event()

    with Client(serve(lambda connection: done.wait(30)), timeout_s=0.05) as client:
        with pytest.raises(WireError, match="no reply to 'move' within"):
            client.ask("move")
        done.set()


@pytest.mark.parametrize(("line", "expected"), [(b"move!\n", "not JSON"), (b"[1]\n", "not a JSON object")])
def test_what_is_not_a_message_is_refused(serve, line: bytes, expected: str):
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(line)

    with Client(serve(answer)) as client, pytest.raises(WireError, match=expected):
        client.ask("move")


def test_a_line_without_end_is_refused_before_it_fills_the_memory():
    ours, theirs = socket.socketpair()
    sender = threading.Thread(target=lambda: theirs.sendall(b"x" * (wire.MAX_LINE_BYTES + 65536)))
    with ours, theirs:
        sender.start()
        with pytest.raises(WireError, match="without end"):
            next(wire.messages(ours))
        while sender.is_alive() and ours.recv(2**20):
            sender.join(timeout=0.01)


def test_nobody_listening_and_a_path_too_long_are_said(tmp_path: Path):
    with pytest.raises(WireError, match="nobody answers"):
        Client(tmp_path / "nobody")
    with pytest.raises(WireError, match="too long"):
        wire.listen(tmp_path / ("x" * 120))


def test_a_line_that_is_nested_beyond_reason_is_no_message():
    with pytest.raises(WireError, match="not JSON"):
        wire.decode(b"[" * 100_000)
