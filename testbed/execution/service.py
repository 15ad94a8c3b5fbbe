"""A Unix socket to which the ranks of a program write messages, one JSON object a line; nobody is answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any

from topologies.wire import WireError, listen, messages

MAX_CLIENTS = 1024
"""At a time: every process group of every rank has a connection."""

STILL_SAID_S = 2.0
"""How long to wait, at the end, for what processes that have ended said last."""


class MessageService:
    """Calls `take` with each message, from the thread of its connection, as long as the context lasts."""

    def __init__(self, path: Path, take: Callable[[dict[str, Any]], None]) -> None:
        self.path, self._take = path, take
        self._open: dict[threading.Thread, socket] = {}

    def __enter__(self) -> MessageService:
        self._server = listen(self.path)
        self._thread = threading.Thread(target=self._accept, name="messages", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._server.shutdown(SHUT_RDWR)
        self._thread.join(timeout=STILL_SAID_S)
        self._server.close()
        until = time.monotonic() + STILL_SAID_S
        for thread, connection in list(self._open.items()):
            thread.join(max(0.0, until - time.monotonic()))
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            if len(self._open) >= MAX_CLIENTS:
                connection.close()
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), name="messages", daemon=True)
            self._open[thread] = connection
            thread.start()

    def _serve(self, connection: socket) -> None:
        with suppress(WireError, OSError), connection:
            for message in messages(connection):
                self._take(message)
        self._open.pop(threading.current_thread(), None)
