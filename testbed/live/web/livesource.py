"""A running testbed as what a dashboard shows: listens to its control socket, and asks it for changes.

A client like any other: what it may ask is less than a verb may.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

from testbed.live.client import Client
from testbed.live.protocol import DownEvent, Snapshot, event_from_json, from_json
from testbed.live.web.mailboxes import Mailbox, Mailboxes
from testbed.live.web.mirror import Mirror
from topologies.errors import InputError, RingroadError

log = logging.getLogger("dashboard")

CHANGES = frozenset({"fail", "heal", "blackhole", "shape", "arm", "reorder", "t_wan", "ring", "crash", "restart"})
"""What a page may ask for. Nothing that runs a program, reads a file or takes the testbed down."""
CHANGES_AT_ONCE = 4


class LiveSource:
    """A running testbed. `start` listens in a thread of its own; all else belongs to the event loop."""

    def __init__(self, socket: Path) -> None:
        """NoTestbed if nobody answers there."""
        self._socket = socket
        self._client = Client(socket)
        snapshot, self._events = self._client.subscribe_raw()
        self._mirror = Mirror(from_json(Snapshot, snapshot))
        # Another kernel counts from its own boot; on this machine's own it is next to nothing.
        self._ahead_s = self._mirror.now - time.monotonic()
        self._pages = Mailboxes()
        self._changing = asyncio.Semaphore(CHANGES_AT_ONCE)
        self._stopping = False
        self.ended = asyncio.Event()

    def start(self) -> None:
        """Listen from now on."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop,), name="testbed's events", daemon=True).start()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """In its thread; what comes is handed to the loop."""
        try:
            while not self._stopping and not self._listened(loop):
                log.warning("cut off from the testbed's events; beginning anew")
                self._client.close()
                self._client = Client(self._socket)
                snapshot, self._events = self._client.subscribe_raw()
                loop.call_soon_threadsafe(self._begin_anew, Mirror(from_json(Snapshot, snapshot)))
        except (RingroadError, OSError) as error:
            log.info("the testbed is gone: %s", error)
        finally:
            loop.call_soon_threadsafe(self._end)

    def _listened(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the testbed said that it ends; else it has cut off a listener that was too slow, or is gone."""
        for plain in self._events:
            loop.call_soon_threadsafe(self._take, plain)
            if plain.get("event") == DownEvent.event:
                return True
        return False

    def _begin_anew(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._pages.begin_anew()

    def _take(self, plain: dict[str, Any]) -> None:
        if not self._mirror.wants(plain.get("event", ""), plain.get("at", 0.0)):
            return
        event = event_from_json(plain)
        if event is None:
            return
        if isinstance(event, DownEvent):
            self._pages.end("down")
        told = self._mirror.take(event)
        if told:
            self._pages.put(self._mirror.version, told)

    def _end(self) -> None:
        self._pages.end("down")
        self.ended.set()

    def stop(self) -> None:
        """Listen no more."""
        self._stopping = True
        self._client.give_up()

    def scene(self) -> dict[str, Any]:
        """Of the testbed."""
        return self._mirror.scene()

    def open_page(self) -> Mailbox:
        """Begins with all that is known now."""
        mirror = self._mirror
        now = time.monotonic() + self._ahead_s
        return self._pages.open({"version": mirror.version, "now": now, "events": mirror.beginning()})

    def close_page(self, mailbox: Mailbox) -> None:
        """That page is gone."""
        self._pages.close(mailbox)

    def recording(self, block: int) -> dict[str, Any]:
        """A running testbed has none: KeyError."""
        raise KeyError(block)

    async def change(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the testbed over a connection of its own. InputError for what a page may not ask for."""
        op = request.get("op")
        if not isinstance(op, str) or op not in CHANGES:
            raise InputError("the dashboard does not do that", value=op, remedy=f"it does {', '.join(sorted(CHANGES))}")
        async with self._changing:
            return await asyncio.to_thread(self._change, op, {k: v for k, v in request.items() if k != "op"})

    def _change(self, op: str, fields: dict[str, Any]) -> dict[str, Any]:
        with Client(self._socket) as client:
            return client.ask(op, **fields)
