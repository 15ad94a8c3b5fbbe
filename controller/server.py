"""The controller's Unix socket (mode 0600, one JSON object a line): requests to the engine, events to subscribers.

Each connection has a reader and a writer of its own; whoever sends nonsense or does not read harms only itself.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.engine import Engine
from controller.memory import Memory
from controller.policies import prepare
from controller.records import Reconfiguration, reconfiguration_to_json
from controller.stack import aside, chosen, green
from controller.view import Pair, Route
from topologies import wire
from topologies.errors import InputError, RingroadError
from topologies.model import Edge

LOG = logging.getLogger("controller")

MAX_WAITING = 10_000
"""Messages for a client that does not read; beyond it the client is cut off."""

MAX_CLIENTS = 256
"""At a time; more are turned away, so that descriptors are left for the switches."""

REMEMBER_S = 0.002
"""After how long what was told is written down."""

SETTLE_S = 10.0
"""How long a reset waits for what it changed in groups, which a switch that is stuck may never confirm."""

Request = dict[str, Any]
Reply = dict[str, Any]


class Server:
    """Accepts connections for as long as the process lives."""

    def __init__(self, listener: socket.socket, openflow_port: int, http_port: int | None, memory: Memory) -> None:
        """`memory` is told whatever a controller that has to start anew would have to know."""
        self._openflow_port, self._http_port, self._memory = openflow_port, http_port, memory
        self._connections: set[_Connection] = set()
        self._subscribers: set[_Connection] = set()
        self.restarts: list[dict[str, Any]] = []
        """Why this process was started anew, if it was."""
        self.engine: Engine
        self._listener = green(listener)

    def start(self) -> None:
        """Serve from now on, in green threads."""
        chosen().hub.spawn(self._accept)

    def publish(self, event: dict[str, Any]) -> None:
        """One event to every subscriber; never blocks."""
        for connection in list(self._subscribers):
            connection.send(event)

    def _accept(self) -> None:
        while True:
            accepted, _ = self._listener.accept()
            if len(self._connections) >= MAX_CLIENTS:
                accepted.close()
                continue
            connection = _Connection(accepted)
            self._connections.add(connection)
            chosen().hub.spawn(self._serve, connection)

    def _serve(self, connection: _Connection) -> None:
        operations: dict[str, Callable[[Request], Reply]] = {
            "status": lambda request: self.status(),
            "view": lambda request: self._view(),
            "wait_ready": self._wait_ready,
            "capacity": self._capacity,
            "true_capacity": self._true_capacity,
            "demands": self._demands,
            "reset": self._reset,
            "period": self._period,
            "pin": self._pin,
            "unpin": self._unpin,
            "subscribe": lambda request: self._subscribe(connection),
        }
        try:
            for request in connection.requests():
                connection.send(_answer(operations, request))
                chosen().hub.sleep(0)
        except (RingroadError, OSError, RecursionError) as error:
            LOG.info("client cut off: %s", error)
            connection.send({"error": f"cut off: {error}"})
        finally:
            self._subscribers.discard(connection)
            self._connections.discard(connection)
            connection.finish()

    def _subscribe(self, connection: _Connection) -> Reply:
        self._subscribers.add(connection)
        return {"subscribed": True, "restarts": self.restarts}

    def status(self) -> Reply:
        """How far the controller is."""
        engine = self.engine
        dpids = engine.state.network.wiring.dpids
        return {
            "port": self._openflow_port,
            "http_port": self._http_port,
            "stack": chosen().name,
            "policy": engine.policy_name,
            "period_s": engine.period_s,
            "ready": engine.state.ready,
            "connected": sorted(dpids[site] for site in engine.state.connected),
            "missing": sorted(dpid for site, dpid in dpids.items() if site not in engine.state.connected),
            "refused": sorted(engine.refused_dpids),
            "rules": engine.state.rules,
            "restarts": sum(restart["count"] for restart in self.restarts),
        }

    def _wait_ready(self, request: Request) -> Reply:
        timeout_s = float(request["timeout_s"])
        ready = chosen().hub.Event()
        self.engine.when_ready(ready.set)
        if ready.wait(timeout=timeout_s):
            return self.status()
        status = self.status()
        raise RingroadError(
            f"not ready after {timeout_s:g} s: missing datapath ids {status['missing']}, "
            f"unknown ones that called {status['refused']}; {'; '.join(self.engine.faults[-3:]) or 'no rule refused'}"
        )

    def _capacity(self, request: Request) -> Reply:
        number = self.engine.capacity(_rates(request["edges"]), float(request["happened_at"]))
        self._remember()
        return {"reconfiguration": number}

    def _true_capacity(self, request: Request) -> Reply:
        self.engine.true_capacities(_rates(request["edges"]))
        self._remember()
        return {}

    def _demands(self, request: Request) -> Reply:
        sizes = {(str(source), str(target)): float(size) for source, target, size in request["pairs"]}
        number = self.engine.demands(sizes, float(request["happened_at"]))
        self._remember()
        return {"reconfiguration": number}

    def _reset(self, request: Request) -> Reply:
        policy = str(request["policy"])
        period_s = None if request.get("period_s") is None else float(request["period_s"])
        rates = _rates(request.get("capacities") or [])
        aside(lambda: prepare(policy))
        reply = _when_installed(lambda done: self.engine.reset(policy, period_s, rates, done))
        self._remember()
        settled = chosen().hub.Event()
        self.engine.when_settled(settled.set)
        settled.wait(timeout=SETTLE_S)
        return reply

    def _period(self, request: Request) -> Reply:
        self.engine.set_period(float(request["period_s"]))
        self._remember()
        return {}

    def _pin(self, request: Request) -> Reply:
        pair, route = _pair(request["pair"]), _route(request["path"])
        reply = _when_installed(lambda done: self.engine.pin(pair, route, done))
        self._remember()
        return reply

    def _unpin(self, request: Request) -> Reply:
        pair = _pair(request["pair"])
        reply = _when_installed(lambda done: self.engine.unpin(pair, done))
        self._remember()
        return reply

    def _remember(self) -> None:
        """Before the reply: what was answered outlives this process. But what follows for switches leaves first."""
        chosen().hub.sleep(REMEMBER_S)
        self._memory.keep(self.engine.told)

    def _view(self) -> Reply:
        state = self.engine.state
        return {
            "capacities": [[*edge, rate] for edge, rate in state.capacities_bps.items()],
            "down": [list(edge) for edge in sorted(state.down)],
            "routes": [[*pair, list(tunnel.route)] for pair, tunnel in state.wanted.items()],
            "tunnels": [[*pair, [list(t.route) for t in tunnels]] for pair, tunnels in state.tunnels.items()],
            "active": [list(pair) for pair in sorted(state.active)],
            "pinned": [list(pair) for pair in sorted(state.pinned)],
        }


class _Connection:
    """One client: lines in by `requests`, lines out by a queue and a writer."""

    def __init__(self, accepted: Any) -> None:
        self._socket = accepted
        self._outbox = chosen().hub.Queue()
        chosen().hub.spawn(self._write)

    def requests(self) -> Any:
        """Every message until the client closes."""
        return wire.messages(self._socket)

    def send(self, message: Reply) -> None:
        """Queue a message; a client that lets too many wait is cut off."""
        if self._outbox.qsize() >= MAX_WAITING:
            self._shut()
        else:
            self._outbox.put(message)

    def finish(self) -> None:
        """Close once everything queued is written."""
        self._outbox.put(None)

    def _write(self) -> None:
        with contextlib.suppress(OSError, wire.WireError):
            while (message := self._outbox.get()) is not None:
                wire.send(self._socket, message)
        self._shut()
        self._socket.close()

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _answer(operations: dict[str, Callable[[Request], Reply]], request: Request) -> Reply:
    """The reply, or `{"error": …}` in words; a request never ends the controller."""
    operation = operations.get(str(request.get("op")))
    if operation is None:
        return {"error": f"unknown op {str(request.get('op'))[:80]!r}; known: {', '.join(operations)}"}
    try:
        return operation(request)
    except RingroadError as error:
        return {"error": str(error)}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        return {"error": f"malformed request: {type(error).__name__}: {error}"}


def _when_installed(request: Callable[[Callable[[Reconfiguration], None]], bool]) -> Reply:
    """Make a request of the engine and wait until the switches have confirmed what follows from it."""
    installed = chosen().hub.Event()
    records: list[Reconfiguration] = []

    def _done(record: Reconfiguration) -> None:
        records.append(record)
        installed.set()

    if not request(_done):
        return {"reconfiguration": None}
    installed.wait()
    return {"reconfiguration": reconfiguration_to_json(records[0])}


def _rates(edges: Any) -> dict[Edge, float]:
    return {(str(source), str(target)): float(rate) for source, target, rate in edges}


def _pair(value: Any) -> Pair:
    source, target = value
    return str(source), str(target)


def _route(value: Any) -> Route:
    if not isinstance(value, list) or not all(isinstance(site, str) for site in value):
        raise InputError("a path is a list of sites", value=json.dumps(value)[:80])
    return tuple(value)


def listen(path: Path) -> socket.socket:
    """The controller's socket. RingroadError if it cannot be opened, or if another controller answers there."""
    try:
        if path.exists() and not _remove_abandoned(path):
            raise RingroadError(f"another controller listens at {path}", "end it, or give this one another socket")
        return wire.listen(path)
    except OSError as error:
        raise RingroadError(f"cannot listen at {path}: {error.strerror}", "give a path in a folder of yours") from error


def _remove_abandoned(path: Path) -> bool:
    """Remove a socket that nobody listens on, left over from a controller that was killed; False if somebody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return True
    return False
