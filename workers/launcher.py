"""The launcher: has imported torch once and forks a rank per DC from that, so that a job starts in moments.

One thread, one selector: clients on a Unix socket, and of every rank its socket and its pidfd. It ends with the process
that started it, and its ranks end with it. It moves no tensors and decides nothing about rings.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from topologies import wire
from topologies.errors import RingroadError
from workers.crew import Crew, RankMain
from workers.job import job_from_json
from workers.lines import Lines

Message = dict[str, Any]

MAX_CLIENTS = 64
"""At a time; more are turned away, so that descriptors are left for the ranks."""


class Launcher:
    """Serves clients on `server`, one job at a time; `folder` is for the rendezvous of its ranks."""

    def __init__(self, server: socket.socket, folder: Path, rank_main: RankMain) -> None:
        self._server, self._folder, self._rank_main = server, folder, rank_main
        self._selector = selectors.DefaultSelector()
        self._clients: dict[socket.socket, Lines] = {}
        self._crew: Crew | None = None
        self._owner: socket.socket | None = None
        """The client whose job it is; a job that ended between its requests is told when it asks next."""
        self._owner_waits = False
        self._untold: Message | None = None
        self._leaving = False

    def serve(self, parent: int) -> None:
        """Until SIGTERM or the end of process `parent`. No rank is left when it returns."""
        woken, wakes = socket.socketpair()
        wakes.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno())
        signal.signal(signal.SIGTERM, lambda *_: None)
        parent_end = os.pidfd_open(parent)
        self._selector.register(woken, selectors.EVENT_READ, self._leave)
        self._selector.register(parent_end, selectors.EVENT_READ, self._leave)
        self._selector.register(self._server, selectors.EVENT_READ, self._accept)
        try:
            while not self._leaving and os.getppid() == parent:
                self._serve_once()
        finally:
            self._end_job()

    def _serve_once(self) -> None:
        blame_at = self._crew.blame_at if self._crew else None
        wait_s = None if blame_at is None else max(0.0, blame_at - time.monotonic())
        for key, _ in self._selector.select(wait_s):
            if self._selector.get_map().get(key.fd) is key:  # an earlier event of this batch may have closed it
                key.data()
        crew = self._crew
        if crew and crew.blame_at is not None and crew.blame_at <= time.monotonic():
            crew.settle_blame()

    def _leave(self) -> None:
        self._leaving = True

    def _accept(self) -> None:
        connection, _ = self._server.accept()
        if len(self._clients) >= MAX_CLIENTS:
            connection.close()
            return
        self._clients[connection] = Lines(connection)
        self._selector.register(connection, selectors.EVENT_READ, partial(self._hear, connection))

    def _hear(self, client: socket.socket) -> None:
        try:
            requests, closed = self._clients[client].read()
        except wire.WireError:
            requests, closed = [], True
        for request in requests:
            self._serve_request(client, request)
        if closed:
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        """A client that leaves takes its job along."""
        if client is self._owner:
            self._end_job()
            self._owner, self._owner_waits, self._untold = None, False, None
        self._selector.unregister(client)
        del self._clients[client]
        client.close()

    def _serve_request(self, client: socket.socket, request: Message) -> None:
        handlers = {
            "start": self._start,
            "run": self._run,
            "adjust": self._adjust,
            "crash": self._crash,
            "restart": self._restart,
            "stop": self._stop,
        }
        handler = handlers.get(str(request.get("op")))
        if handler is None:
            self._send(client, {"error": f"ask for one of {', '.join(handlers)}"})
            return
        handler(client, request)

    def _start(self, client: socket.socket, request: Message) -> None:
        if self._crew is not None:
            self._send(client, {"error": "a job is there already: stop it first"})
            return
        try:
            job = job_from_json(request["job"])
            emit = partial(self._send, client)
            self._crew = Crew(job, self._rank_main, self._selector, self._folder, answer=self._answer, emit=emit)
            self._crew.start([self._server, *self._clients])
        except (RingroadError, OSError, KeyError, TypeError) as error:
            self._end_job()
            self._send(client, {"error": f"the job cannot start: {error}"})
            return
        self._owner, self._owner_waits, self._untold = client, True, None

    def _run(self, client: socket.socket, request: Message) -> None:
        if client is self._owner and self._untold is not None:
            self._send(client, self._untold)
            self._untold = None
        elif self._crew is None or client is not self._owner or self._owner_waits:
            self._send(client, {"error": "no job of yours is ready to run"})
        else:
            self._owner_waits = True
            self._crew.run(request.get("start_at"))

    def _adjust(self, client: socket.socket, request: Message) -> None:
        if self._crew is None:
            self._send(client, {"error": "no job is there to adjust"})
            return
        try:
            self._crew.adjust(request.get("every"), request.get("order"))
        except (RingroadError, TypeError) as error:
            self._send(client, {"error": f"the job cannot be adjusted: {error}"})
            return
        self._send(client, {"ok": True})

    def _crash(self, client: socket.socket, request: Message) -> None:
        self._change_ranks(client, lambda crew: crew.crash(str(request.get("dc"))))

    def _restart(self, client: socket.socket, request: Message) -> None:
        self._change_ranks(client, lambda crew: crew.restart(str(request.get("dc")), [self._server, *self._clients]))

    def _change_ranks(self, client: socket.socket, change: Callable[[Crew], list[int]]) -> None:
        try:
            ranks = change(self._crew) if self._crew is not None else []
        except (RingroadError, OSError) as error:
            self._send(client, {"error": str(error)})
            return
        self._send(client, {"ranks": ranks})

    def _stop(self, client: socket.socket, _: Message) -> None:
        if self._crew is not None:
            self._answer({"stopped": True})
        self._send(client, {"ok": True})

    def _answer(self, reply: Message) -> None:
        """Tell the owner what became of its job; every answer but that of `start` ends the job."""
        if "ready_at" not in reply:
            self._end_job()
        if not self._owner_waits:
            self._untold = reply
        elif self._owner is not None:
            self._owner_waits = False
            self._send(self._owner, reply)

    def _end_job(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.end()

    def _send(self, client: socket.socket, message: Message) -> None:
        """A client that is gone is no trouble here: its end arrives as an event of its own.

        Only the owner of the job is waited for while it does not read; any other is cut off.
        """
        client.settimeout(None if client is self._owner else 0)
        with suppress(wire.WireError):
            wire.send(client, message)
            return
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
