"""Where everything that happens is told: numbers events, remembers the recent ones, hands each to every subscriber.

Nobody who tells something ever waits for who listens: a subscriber that falls behind is cut off.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections import deque
from typing import Any, TypeVar

from testbed.live.protocol import (
    KEPT_COLLECTIVES,
    KEPT_LOG,
    Collective,
    CollectiveEvent,
    Event,
    LinkEvent,
    LogEntry,
    RatesEvent,
    RoutesEvent,
    to_json,
)

log = logging.getLogger(__name__)

MAX_WAITING = 2000
"""Events for a subscriber that does not read: minutes of them. Beyond, it is cut off."""

NOT_LOGGED = (CollectiveEvent, RoutesEvent, RatesEvent)

Kind = TypeVar("Kind", bound=Event)


class Subscriber:
    """One listener's queue of JSON lines. `next` blocks; None is the end."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = False

    def put(self, line: bytes) -> bool:
        """Queue a line; False when too many wait, and then this is the end."""
        if self._ended or self._lines.qsize() >= MAX_WAITING:
            self.end()
            return False
        self._lines.put(line)
        return True

    def end(self) -> None:
        """Nothing comes after what is queued."""
        if not self._ended:
            self._ended = True
            self._lines.put(None)

    def next(self) -> bytes | None:
        """The next line; blocks until there is one. None: no more."""
        return self._lines.get()


class Hub:
    """Any thread may publish and subscribe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seq = 0
        self._number = 0
        self._subscribers: set[Subscriber] = set()
        self._log: deque[LogEntry] = deque(maxlen=KEPT_LOG)
        self._collectives: deque[Collective] = deque(maxlen=KEPT_COLLECTIVES)

    def publish(self, kind: type[Kind], text: str, **fields: Any) -> Kind:
        """Tell everybody of an event of that kind that happens now. Never blocks."""
        with self._lock:
            self._seq += 1
            event = kind(seq=self._seq, at=time.monotonic(), text=text, **fields)
            if isinstance(event, CollectiveEvent):
                self._collectives.append(event.collective)
            if text and not isinstance(event, NOT_LOGGED):
                self._log.append(LogEntry(event.seq, event.at, event.event, text))
            if self._subscribers:
                line = json.dumps(to_json(event), separators=(",", ":")).encode() + b"\n"
                self._subscribers = {each for each in self._subscribers if each.put(line)}
        if text and not isinstance(event, (*NOT_LOGGED, LinkEvent)):
            log.info("%s", text)
        return event

    def next_number(self) -> int:
        """Numbers for collectives, from 1."""
        with self._lock:
            self._number += 1
            return self._number

    @property
    def has_listeners(self) -> bool:
        """Whether anybody would hear an event."""
        return bool(self._subscribers)

    def subscribe(self) -> tuple[Subscriber, dict[str, Any]]:
        """A subscriber that gets every event from now on, and the past up to it, as `recent`."""
        subscriber = Subscriber()
        with self._lock:
            self._subscribers.add(subscriber)
            return subscriber, self._recent()

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """It gets no more."""
        with self._lock:
            self._subscribers.discard(subscriber)
        subscriber.end()

    def recent(self) -> dict[str, Any]:
        """`seq`, `log` and `collectives` of a snapshot, all of the same moment."""
        with self._lock:
            return self._recent()

    def _recent(self) -> dict[str, Any]:
        return {"seq": self._seq, "log": tuple(self._log), "collectives": tuple(self._collectives)}

    def close(self) -> None:
        """Every subscriber ends once it has read what there is."""
        with self._lock:
            subscribers, self._subscribers = self._subscribers, set()
        for subscriber in subscribers:
            subscriber.end()
