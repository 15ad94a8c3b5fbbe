"""What the `ring` backend of every rank tells while a program runs, put together into the records of its arm.

A collective is on record once every rank of its group has told its part; one that not all have ended never is. Knows
no network and no process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from testbed.execution.limits import Limits

Record = Callable[[str, dict[str, Any]], None]


class Collected:
    """Takes messages from the threads of all connections; see `workers.backend.journal` for what they hold.

    `record(kind, entry)` gets one `collectives` record per collective and one `ring_changes` record per turn of the
    agent; `on_order(dcs)` the order of a ring that all DCs are in when it has changed; `on_joined()` is called once,
    when every rank has joined its first group.
    """

    def __init__(
        self,
        dc_of: Sequence[str],
        limits: Limits,
        record: Record,
        on_order: Callable[[Sequence[str]], None],
        on_joined: Callable[[], None],
    ) -> None:
        """`dc_of` names the DC of each rank."""
        self._dc_of, self._limits, self._record, self._on_order = dc_of, limits, record, on_order
        self._on_joined = on_joined
        self._missing = set(range(len(dc_of)))
        self._parts: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self._lock = threading.Lock()

    def take(self, message: dict[str, Any]) -> None:
        """One message. What is none of the journal's is left out: whoever runs in a DC may write to the socket."""
        with self._lock:
            try:
                if "ring_change" in message:
                    self._take_change(message)
                elif "collective" in message:
                    self._take_part(message)
                elif "joined" in message:
                    self._take_joined(int(message["joined"]))
            except (KeyError, TypeError, ValueError, IndexError, AttributeError):
                return

    def _take_part(self, message: dict[str, Any]) -> None:
        key = (message["group"], int(message["index"]))
        parts = self._parts.setdefault(key, [])
        parts.append(message)
        if len(parts) == len(message["ranks"]):
            del self._parts[key]
            self._record("collectives", self._limits.added(_whole(parts), self._dc_of))

    def _take_joined(self, rank: int) -> None:
        if self._missing:
            self._missing.discard(rank)
            if not self._missing:
                self._on_joined()

    def _take_change(self, message: dict[str, Any]) -> None:
        change = message["ring_change"]
        self._record("ring_changes", change | {"limit_bps": self._limits.shard_bps(change["started_at"])})
        order = [self._dc_of[message["members"][place][0]] for place in change["to"]] if "members" in message else []
        if change["changed"] and set(order) == set(self._dc_of):
            self._on_order(order)


def _whole(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record of what every rank tells: from the first start to the last end, as nccl-tests' maximum."""
    first = min(parts, key=lambda part: part["rank"])
    by_rank = {part["rank"]: part for part in parts}
    ranks = list(first["ranks"])
    start, end = min(part["start"] for part in parts), max(part["end"] for part in parts)
    turn_start = min(part["turn_start"] for part in parts)
    return {
        "event": "collective",
        "kind": first["collective"],
        "group": first["group"],
        "ranks": ranks,
        "index": first["index"],
        "epoch": first["epoch"],
        "order": first["order"],
        "size_bytes": max(part["size_bytes"] for part in parts),
        "turn_start": turn_start,
        "start": start,
        "end": end,
        "time_s": end - start,
        "agent_s": max(0.0, start - turn_start),
        "rank_start": [by_rank[rank]["start"] for rank in ranks],
        "rank_end": [by_rank[rank]["end"] for rank in ranks],
    }
