"""One mailbox for each page that is open: what happens is put into all, and each page empties its own at its own pace.

A page that does not read is cut off rather than waited for: its browser comes back by itself and begins anew.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

MAX_PAGES = 32
MAX_WAITING = 600
"""Events that a page may be behind."""
BEAT_S = 15.0
"""A stream with nothing to tell says so often that it lives; a page that is gone is noticed then at the latest."""


class TooManyPages(Exception):
    """No more mailboxes: each costs a connection and memory."""


class Mailbox:
    """What one page has not been told yet."""

    def __init__(self, first: dict[str, Any]) -> None:
        self._waiting: list[dict[str, Any]] = []
        self._first: dict[str, Any] | None = first
        self._news = asyncio.Event()
        self._version = -1
        self._end: str | None = None

    def put(self, version: int, told: list[dict[str, Any]]) -> None:
        """Never blocks."""
        if len(self._waiting) + len(told) > MAX_WAITING:
            self.end("behind")
            return
        self._version = version
        self._waiting += told
        self._news.set()

    def end(self, why: str) -> None:
        """No more follows; the page is told why if it reads on."""
        self._end = why
        self._news.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """Server-sent events (HTML standard, 9.2) until the end: `snapshot`, then `changes`, at last perhaps `down`."""
        yield b"retry: 1000\n\n" + _message("snapshot", self._first or {})
        self._first = None
        while self._end is None:
            try:
                await asyncio.wait_for(self._news.wait(), BEAT_S)
            except TimeoutError:
                yield b":\n\n"
                continue
            self._news.clear()
            told, self._waiting = self._waiting, []
            if told and self._end != "behind":
                yield _message("changes", {"version": self._version, "events": told})
        if self._end == "down":
            yield _message("down", {})


class Mailboxes:
    """All pages that are open. Used from the event loop alone."""

    def __init__(self) -> None:
        self._open: set[Mailbox] = set()
        self._ended: str | None = None

    def open(self, first: dict[str, Any]) -> Mailbox:
        """A mailbox that begins with `first`. TooManyPages if there are as many as there may be."""
        if len(self._open) >= MAX_PAGES:
            raise TooManyPages
        mailbox = Mailbox(first)
        self._open.add(mailbox)
        if self._ended:
            mailbox.end(self._ended)
        return mailbox

    def close(self, mailbox: Mailbox) -> None:
        """The page is gone."""
        self._open.discard(mailbox)

    def put(self, version: int, told: list[dict[str, Any]]) -> None:
        """The same to all."""
        for mailbox in self._open:
            mailbox.put(version, told)

    def begin_anew(self) -> None:
        """What the open pages know does not go on: each is ended, and its browser comes back for a new beginning."""
        for mailbox in self._open:
            mailbox.end("behind")

    def end(self, why: str) -> None:
        """All of them, and those that come later."""
        self._ended = why
        for mailbox in self._open:
            mailbox.end(why)

    def __len__(self) -> int:
        return len(self._open)


def _message(name: str, value: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()
