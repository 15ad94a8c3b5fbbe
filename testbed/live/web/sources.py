"""Where a dashboard's pages get what they show, and a finished run as such a source; a running one is `livesource`.

Both answer `scene`; a running testbed has events and takes changes, a finished run has recordings.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from testbed.live.web.mailboxes import Mailbox
from testbed.live.web.recording import Recording
from topologies.errors import InputError


class Source(Protocol):
    """What an app serves."""

    ended: asyncio.Event
    """Set when there is nothing more to show."""

    def start(self) -> None:
        """Called once, in the event loop, before the first request."""

    def stop(self) -> None:
        """Called once, after the last."""

    def scene(self) -> dict[str, Any]:
        """What does not change."""

    def open_page(self) -> Mailbox:
        """What happens, for one more page."""

    def close_page(self, mailbox: Mailbox) -> None:
        """That page is gone."""

    def recording(self, block: int) -> dict[str, Any]:
        """All arms of a block. KeyError if there is no such block."""

    async def change(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do it, and say what was done."""


class RunSource:
    """A finished run. Read once, when it is opened."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._blocks: dict[int, dict[str, Any]] = {}
        self.ended = asyncio.Event()

    def start(self) -> None:
        """Nothing happens any more."""

    def stop(self) -> None:
        """Nothing to end."""

    def scene(self) -> dict[str, Any]:
        """Of the run."""
        return self._recording.scene()

    def open_page(self) -> Mailbox:
        """Nothing happens any more: KeyError."""
        raise KeyError("events")

    def close_page(self, mailbox: Mailbox) -> None:
        """There is none."""

    def recording(self, block: int) -> dict[str, Any]:
        """All arms of a block, kept once it was made."""
        if block not in self._blocks:
            self._blocks = {block: self._recording.block(block)}
        return self._blocks[block]

    async def change(self, request: dict[str, Any]) -> dict[str, Any]:
        """Refused: what was, was."""
        raise InputError("a finished run cannot be changed", remedy="bring a testbed up: ringroad up mesh4 --workers")
