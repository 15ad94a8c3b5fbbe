"""The typed way to talk to a running controller over its Unix socket. Imports no OpenFlow framework.

`ControllerClient` asks and waits for the answer, one client a thread; `EventStream` is a connection of its own that
only listens. All times are seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.records import Reconfiguration, reconfiguration_from_json
from controller.view import Pair, Route
from topologies import wire
from topologies.errors import RingroadError
from topologies.model import Edge

DEFAULT_TIMEOUT_S = 30.0

START_S = 120.0
"""Paths of 100 sites take seconds to plan, and what `maxmin` needs is compiled when it is used for the first time."""


@dataclass(frozen=True)
class ControllerStatus:
    """How far the controller is. `connected` and `missing` are datapath ids; `refused` the unknown ones that called."""

    port: int
    stack: str
    policy: str
    period_s: float
    ready: bool
    connected: tuple[int, ...]
    missing: tuple[int, ...]
    refused: tuple[int, ...]
    rules: int
    """Rules that switches have confirmed."""
    restarts: int = 0
    """How often the watchdog has started it anew."""
    http_port: int | None = None
    """Where it can be read over HTTP on 127.0.0.1, if at all."""


@dataclass(frozen=True)
class NetworkView:
    """What the controller knows: capacities by directed edge, edges that are down, one route a pair, active pairs."""

    capacities_bps: Mapping[Edge, float]
    down: frozenset[Edge]
    routes: Mapping[Pair, Route]
    tunnels: Mapping[Pair, tuple[Route, ...]]
    active: frozenset[Pair]
    pinned: frozenset[Pair]


class ControllerClient:
    """Requests to one controller. Every method raises WireError when it is gone, slow, or refuses (and says why).

    A controller that is started anew by its watchdog is asked again: every request may be made twice.
    """

    def __init__(self, socket_path: Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.socket_path, self._timeout_s = socket_path, timeout_s
        self._client = wire.Client(socket_path, timeout_s)

    def status(self) -> ControllerStatus:
        """At once, ready or not."""
        return _status(self._ask("status"))

    def wait_ready(self, timeout_s: float) -> ControllerStatus:
        """Block until every switch is connected and every rule confirmed; WireError names the missing ones."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                with wire.Client(self.socket_path, left_s + 5.0) as client:
                    return _status(client.ask("wait_ready", timeout_s=left_s))
            except wire.ConnectionLost:
                if not left_s:
                    raise

    def capacity(self, rates_bps: Mapping[Edge, float], happened_at: float) -> int | None:
        """Tell what directed edges can carry now. One call is one reconfiguration, however many edges it names.

        Answers once decided, before the switches confirm: the number of the reconfiguration, None if nothing moves.
        """
        edges = [[source, target, rate] for (source, target), rate in rates_bps.items()]
        return self._ask("capacity", edges=edges, happened_at=happened_at)["reconfiguration"]

    def true_capacity(self, rates_bps: Mapping[Edge, float]) -> None:
        """Tell what directed edges carry in truth, for its metrics to show beside what it knows."""
        self._ask("true_capacity", edges=[[a, b, rate] for (a, b), rate in rates_bps.items()])

    def demands(self, size_bytes: Mapping[Pair, float], happened_at: float) -> int | None:
        """Tell who sends from now on, and how many bytes in one collective; nobody else does. Answers as `capacity`."""
        pairs = [[source, target, size] for (source, target), size in size_bytes.items()]
        return self._ask("demands", pairs=pairs, happened_at=happened_at)["reconfiguration"]

    def reset(
        self, policy: str, period_s: float | None = None, capacities: Mapping[Edge, float] | None = None
    ) -> Reconfiguration | None:
        """Every pair back on its shortest path, pins gone, demands forgotten, and a new policy; None keeps the rest.

        Blocks until the switches have confirmed; None if every pair was there already.
        """
        edges = None if capacities is None else [[a, b, rate] for (a, b), rate in capacities.items()]
        return _record(self._ask("reset", policy=policy, period_s=period_s, capacities=edges))

    def period(self, period_s: float) -> None:
        """T_wan from now on, in seconds; routes, pins and demands stay."""
        self._ask("period", period_s=period_s)

    def pin(self, pair: Pair, path: Route) -> Reconfiguration | None:
        """Keep one pair on one path until `unpin` or `reset`. Blocks until confirmed; None if it was there."""
        return _record(self._ask("pin", pair=list(pair), path=list(path)))

    def unpin(self, pair: Pair) -> Reconfiguration | None:
        """Give a pair back to the policy, from its shortest path. Blocks until confirmed."""
        return _record(self._ask("unpin", pair=list(pair)))

    def view(self) -> NetworkView:
        """Capacities as known, routes as decided."""
        plain = self._ask("view")
        return NetworkView(
            capacities_bps={(a, b): rate for a, b, rate in plain["capacities"]},
            down=frozenset((a, b) for a, b in plain["down"]),
            routes={(a, b): tuple(route) for a, b, route in plain["routes"]},
            tunnels={(a, b): tuple(tuple(route) for route in routes) for a, b, routes in plain["tunnels"]},
            active=frozenset((a, b) for a, b in plain["active"]),
            pinned=frozenset((a, b) for a, b in plain["pinned"]),
        )

    def subscribe(self) -> EventStream:
        """A stream of every event from now on; the caller closes it."""
        return EventStream(self.socket_path)

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        try:
            return self._client.ask(op, **fields)
        except wire.ConnectionLost:
            self._client.close()
            self._client = wire.Client(self.socket_path, self._timeout_s)
            return self._client.ask(op, **fields)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> ControllerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EventStream:
    """Events as JSON objects, in order: `reconfiguration` (see `records`), `switch`, `link`, `malformed`, `restart`.

    A subscriber that does not read is cut off by the controller rather than waited for. When the controller is started
    anew by its watchdog the stream goes on with a `restart`. `fileno` serves select.
    """

    def __init__(self, socket_path: Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._socket_path, self._timeout_s = socket_path, timeout_s
        self._closed = False
        self._connection = self._subscribe()

    def _subscribe(self) -> socket.socket:
        self._buffer = bytearray()
        connection = self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._timeout_s)
        try:
            connection.connect(os.fspath(self._socket_path))
            wire.send(connection, {"op": "subscribe"})
            while b"\n" not in self._buffer:
                received = connection.recv(65536)
                if not received:
                    raise wire.ConnectionLost("closed")
                self._buffer += received
        except (OSError, wire.WireError) as error:
            connection.close()
            raise wire.WireError(f"nobody answers at {self._socket_path}: {error}") from error
        line, _, self._buffer = self._buffer.partition(b"\n")
        self._restarts = wire.decode(bytes(line)).get("restarts", [])
        return connection

    def events(self, timeout_s: float | None = None) -> Iterator[dict[str, Any]]:
        """Block for each next event; ends with the controller, or when `close` is called.

        TimeoutError when one takes longer than `timeout_s`; nothing is lost by it, call again to go on.
        """
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                yield wire.decode(bytes(line))
                continue
            self._connection.settimeout(timeout_s)
            try:
                received = self._connection.recv(65536)
            except ConnectionResetError:
                received = b""
            if received:
                self._buffer += received
            elif self._closed or not self._subscribed_again():
                return
            else:
                yield from self._restarts

    def _subscribed_again(self) -> bool:
        try:
            old = self._connection
            self._connection = self._subscribe()
        except wire.WireError:
            return False
        old.close()
        return True

    def fileno(self) -> int:
        """Readable when an event waits, unless one was read together with its predecessor: then iterate on."""
        return self._connection.fileno()

    def close(self) -> None:
        """End the subscription; also wakes a thread that blocks in `events`."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_listening(process: subprocess.Popen[bytes], timeout_s: float = START_S) -> int:
    """The OpenFlow port of a `python -m controller` just started with stdout=PIPE, once it and the socket are open.

    The process writes one line on stdout at that moment and nothing ever after. RingroadError if it ends or is silent.
    """
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], timeout_s)
    if not readable:
        raise RingroadError(f"the controller opened no port within {timeout_s:g} s")
    line = process.stdout.readline()
    if not line:
        raise RingroadError("the controller ended before it opened its port", "read the end of its log")
    return int(json.loads(line)["port"])


def _status(plain: dict[str, Any]) -> ControllerStatus:
    dpids = {name: tuple(plain[name]) for name in ("connected", "missing", "refused")}
    plain_rest = {
        name: plain[name] for name in ("port", "stack", "policy", "period_s", "ready", "rules", "restarts", "http_port")
    }
    return ControllerStatus(**plain_rest, **dpids)


def _record(reply: dict[str, Any]) -> Reconfiguration | None:
    plain = reply["reconfiguration"]
    return None if plain is None else reconfiguration_from_json(plain)
