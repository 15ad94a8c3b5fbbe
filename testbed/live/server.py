"""The control socket of a live testbed (mode 0600, one JSON object a line): requests in, replies and events out.

A thread for each connection; whoever sends nonsense or does not read harms only itself.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.live import requests as ask
from testbed.live.hub import Hub
from testbed.live.operations import Operations
from testbed.live.protocol import to_json
from topologies import wire
from topologies.errors import RingroadError, refused_by_system

log = logging.getLogger(__name__)

MAX_CLIENTS = 64
"""At a time; more are turned away, so that descriptors and threads are left for the testbed."""

MAX_REQUEST_BYTES = 64 * 1024
"""No request comes near; who sends a longer one is cut off before it is looked at."""

SEND_S = 10.0
"""How long a client may leave a reply or an event unread."""


class Server:
    """Serves as long as the context lasts."""

    def __init__(self, path: Path, operations: Operations, hub: Hub) -> None:
        self._path, self._operations, self._hub = path, operations, hub
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Server:
        self._listener = wire.listen(self._path)
        self._thread = threading.Thread(target=self._accept, name="control socket", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Subscribers read what has been told, the last event too, before their connection closes."""
        self._shut(self._listener)
        self._thread.join()
        self._hub.close()
        with self._lock:
            left = list(self._open)
        for connection in left:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if room := len(self._open) < MAX_CLIENTS:
                    self._open.add(connection)
            if not room:
                self._turn_away(connection)
                continue
            threading.Thread(target=self._serve, args=(connection,), name="client", daemon=True).start()

    @staticmethod
    def _turn_away(connection: socket.socket) -> None:
        """With a word that fits into an empty socket: it waits for nobody."""
        many = RingroadError(f"{MAX_CLIENTS} clients are connected already, and no more fit", "close some")
        with connection, suppress(RingroadError):
            wire.send(connection, _refused(many))

    def _serve(self, connection: socket.socket) -> None:
        try:
            for line in _lines(connection):
                if self._answer(connection, line):
                    return
        except _TooLong as error:
            with suppress(RingroadError):
                wire.send(connection, _refused(error))
        except (OSError, wire.WireError) as error:
            log.debug("a client is cut off: %s", error)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _answer(self, connection: socket.socket, line: bytes) -> bool:
        """Answer one request; True if it was the last of this connection."""
        connection.settimeout(SEND_S)
        try:
            request = ask.read_request(wire.decode(line))
            if isinstance(request, ask.Subscribe):
                self._stream(connection)
                return True
            reply = self._operations.carry_out(request)
        except wire.WireError as error:
            wire.send(connection, _refused(error))
            return True
        except RingroadError as error:
            reply = _refused(error)
        except OSError as error:
            reply = _refused(refused_by_system(error, "this cannot be done"))
        except Exception as error:
            log.exception("a request that nobody thought of: %.200r", line)
            reply = _refused(RingroadError(f"this cannot be done: {error!r}", "the testbed's log has more"))
        wire.send(connection, reply)
        connection.settimeout(None)
        return False

    def _stream(self, connection: socket.socket) -> None:
        """Everything from now on, until either side has had enough."""
        subscriber, recent = self._hub.subscribe()
        try:
            wire.send(connection, to_json(self._operations.snapshot(recent)))
            while (line := subscriber.next()) is not None:
                connection.sendall(line)
        finally:
            self._hub.unsubscribe(subscriber)

    @staticmethod
    def _shut(listener: socket.socket) -> None:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


class _TooLong(wire.WireError):
    """A request without end."""


def _lines(connection: socket.socket) -> Any:
    """Every line until the other side closes. WireError for one that is too long."""
    buffer = bytearray()
    while received := connection.recv(65536):
        buffer += received
        while (end := buffer.find(b"\n")) >= 0:
            if end > MAX_REQUEST_BYTES:
                break
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            yield line
        if len(buffer) > MAX_REQUEST_BYTES:
            raise _TooLong(f"a request has at most {MAX_REQUEST_BYTES} bytes", "make it shorter")


def _refused(error: RingroadError) -> dict[str, Any]:
    return {"refused": {"message": error.message, "remedy": error.remedy, "exit_code": error.exit_code}}
