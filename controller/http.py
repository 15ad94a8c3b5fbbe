"""Read-only HTTP on loopback, for people and for Prometheus: GET and nothing else, every request within bounds.

Whoever can reach the port can read; nobody can write, for that there is the Unix socket. The Host header has to name
loopback, so that no web page can have a browser read it (DNS rebinding). Each answer ends its connection.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller import pages
from controller.engine import Engine
from controller.metrics import CONTENT_TYPE, Metrics
from controller.stack import chosen, green

LOG = logging.getLogger("controller")

HOSTS = ("127.0.0.1", "localhost")
MAX_HEAD_BYTES = 8192
MAX_CONNECTIONS = 64
MAX_WAITING = 1000
"""Events for a listener that does not read; beyond it the listener is cut off."""
TIMEOUT_S = 5.0
"""How long a request may take to arrive, and an answer may be stuck."""
BEAT_S = 15.0
"""A silent stream of events says that it lives so often."""

REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True)
class Answer:
    """Status, what the body is, and the body in pieces."""

    status: int
    kind: str
    body: Iterable[bytes]


class Refused(Exception):
    """A request that is not answered, with the status that says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def path_of(head: bytes) -> str:
    """The path that a request asks for, without its query. Refused if it is anything but a plain GET to loopback."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refused(400, "not HTTP/1.1")
    if words[0] != "GET":
        raise Refused(405, "read-only: GET and nothing else; writes go over the Unix socket")
    headers = [line.partition(":")[::2] for line in lines[1:] if line]
    named = [(name.lower(), value.strip()) for name, value in headers]
    hosts = [value for name, value in named if name == "host"]
    if len(hosts) != 1 or (hosts[0].rpartition(":")[0] not in HOSTS and hosts[0] not in HOSTS):
        raise Refused(403, f"the Host header has to be one of {', '.join(HOSTS)}")
    if any(name == "transfer-encoding" or (name == "content-length" and value != "0") for name, value in named):
        raise Refused(400, "a GET has no body")
    return words[1].partition("?")[0]


class HttpServer:
    """Serves an open port for as long as the process lives."""

    def __init__(
        self, listener: socket.socket, engine: Engine, status: Callable[[], Mapping[str, Any]], restarts: list[dict]
    ) -> None:
        """`status` as over the Unix socket; `restarts` are the first events that every listener gets."""
        self._listener = green(listener)
        self._engine, self._status, self._restarts = engine, status, restarts
        self._metrics = Metrics(engine, sum(restart["count"] for restart in restarts))
        self._listeners: set[Any] = set()
        self._connections = 0
        self._answers: Mapping[str, Callable[[], Answer]] = {
            "/v1/health": self._health,
            "/v1/topology": lambda: _json(200, pages.topology(engine)),
            "/v1/paths": lambda: Answer(200, JSON, (piece.encode() for piece in pages.paths(engine))),
            "/metrics": lambda: Answer(200, CONTENT_TYPE, (self._metrics.text(),)),
        }

    def start(self) -> None:
        """Serve from now on, in green threads."""
        chosen().hub.spawn(self._accept)

    def publish(self, event: dict[str, Any]) -> None:
        """One event to every listener; never blocks."""
        self._metrics.observe(event)
        for outbox in list(self._listeners):
            if outbox.qsize() < MAX_WAITING:
                outbox.put(event)
            else:
                self._listeners.discard(outbox)
                outbox.put(None)

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            chosen().hub.spawn(self._serve, connection)

    def _serve(self, connection: Any) -> None:
        self._connections += 1
        try:
            # A client may vanish or stall at any moment: that is its own affair.
            with contextlib.suppress(OSError):
                self._answer(connection)
        finally:
            self._connections -= 1
            connection.close()

    def _answer(self, connection: Any) -> None:
        connection.settimeout(TIMEOUT_S)
        try:
            if self._connections > MAX_CONNECTIONS:
                raise Refused(503, f"more than {MAX_CONNECTIONS} connections")
            path = path_of(_head(connection))
            if path == "/v1/events":
                self._stream(connection)
                return
            if path not in self._answers:
                raise Refused(404, f"known: {', '.join([*self._answers, '/v1/events'])}")
            answer = self._answers[path]()
        except Refused as refused:
            answer = _json(refused.status, {"error": str(refused)})
        connection.sendall(_response_head(answer.status, answer.kind))
        for piece in answer.body:
            connection.sendall(piece)
            chosen().hub.sleep(0)
        _end(connection)

    def _health(self) -> Answer:
        """503 unless all is well, as load balancers and probes expect."""
        return _json(200 if self._engine.state.ready else 503, pages.health(self._engine, self._status()))

    def _stream(self, connection: Any) -> None:
        """Events until the client goes, or falls behind."""
        outbox = chosen().hub.Queue()
        for restart in self._restarts:
            outbox.put(restart)
        self._listeners.add(outbox)
        reader = chosen().hub.spawn(_wait_for_end, connection, outbox)
        beat = chosen().hub.spawn(_beat, outbox)
        try:
            connection.sendall(_response_head(200, EVENTS) + b"retry: 1000\n\n")
            while (event := outbox.get()) is not None:
                connection.sendall(pages.event_text(event).encode() if event else b":\n\n")
        finally:
            self._listeners.discard(outbox)
            for thread in (reader, beat):
                chosen().hub.kill(thread)


def _wait_for_end(connection: Any, outbox: Any) -> None:
    """Notice that a listener is gone; whatever it says meanwhile is not heard."""
    with contextlib.suppress(OSError):
        while True:
            try:
                if not connection.recv(4096):
                    break
            except TimeoutError:
                continue
    outbox.put(None)


def _beat(outbox: Any) -> None:
    while True:
        chosen().hub.sleep(BEAT_S)
        outbox.put({})


def _head(connection: Any) -> bytes:
    received = bytearray()
    with chosen().hub.Timeout(TIMEOUT_S, Refused(400, f"no request within {TIMEOUT_S:g} s")):
        while b"\r\n\r\n" not in received:
            if len(received) > MAX_HEAD_BYTES:
                raise Refused(431, f"more than {MAX_HEAD_BYTES} bytes of headers")
            more = connection.recv(4096)
            if not more:
                raise Refused(400, "half a request")
            received += more
    head, _, _ = received.partition(b"\r\n\r\n")
    return bytes(head)


def _response_head(status: int, kind: str) -> bytes:
    allow = "Allow: GET\r\n" if status == 405 else ""
    return (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\n"
        f"X-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n"
    ).encode()


def _json(status: int, plain: Mapping[str, Any]) -> Answer:
    return Answer(status, JSON, (json.dumps(plain).encode() + b"\n",))


def _end(connection: Any) -> None:
    """Close so that the client gets all of the answer even if some of what it sent was never read."""
    connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(OSError):
        for _ in range(16):
            if not connection.recv(4096):
                return
