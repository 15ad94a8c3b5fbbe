"""Tells whoever started the script, over a Unix socket, what its bulk collectives took and how their ring changed.

A message is one JSON object: {"joined": rank} once from every rank that is in its first group, {"collective": …} from
every rank of a group, {"ring_change": …} from its first. Nobody answers. A script never fails for want of somebody who
listens: from the first failure on, nothing more is said.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from topologies import wire
from workers.decision import Ring

log = logging.getLogger(__name__)


def tell(path: Path, message: dict[str, Any]) -> None:
    """Say one thing. WireError or OSError if nobody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(path))
        wire.send(connection, message)


class Journal:
    """Of one process group on one rank. `ranks` are the group's, as global ranks. Safe from several threads."""

    def __init__(self, path: Path, group_name: str, ranks: Sequence[int], rank: int) -> None:
        self._group = {"group": group_name, "ranks": list(ranks)}
        self._ranks, self._rank = ranks, ranks[rank]
        self._lock = threading.Lock()
        self._connection: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connection.connect(str(path))
        except OSError as error:
            self._fall_silent(error)

    def collective(
        self, kind: str, size_bytes: int, index: int, ring: Ring, turn_start: float, start: float, end: float
    ) -> None:
        """This rank's part of bulk collective `index` (from 0) of the group; times in s of CLOCK_MONOTONIC.

        `size_bytes` is what a rank contributes to all_gather, gets from reduce_scatter, holds in the others; from
        `turn_start` to `start` the ring agent was at work.
        """
        self._say(
            {
                "collective": kind,
                "index": index,
                "rank": self._rank,
                "size_bytes": size_bytes,
                "epoch": ring.epoch,
                "order": [self._ranks[place] for place in ring.order],
                "turn_start": turn_start,
                "start": start,
                "end": end,
            }
            | self._group
        )

    def ring_change(self, change: dict[str, Any]) -> None:
        """A turn of the ring agent, as the agent records it."""
        self._say({"ring_change": change} | self._group)

    def close(self) -> None:
        """Say nothing more."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _say(self, message: dict[str, Any]) -> None:
        with self._lock:
            if self._connection is None:
                return
            try:
                wire.send(self._connection, message)
            except wire.WireError as error:
                self._fall_silent(error)

    def _fall_silent(self, error: Exception) -> None:
        log.warning("collectives are recorded no more: %s", error)
        if self._connection is not None:
            self._connection.close()
        self._connection = None
