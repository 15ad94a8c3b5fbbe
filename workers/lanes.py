"""Moves the chunks of a plan whose receives come in several lanes: a thread waits for each, another sends to each peer.

gloo can only be waited for, one transfer at a time; so a lane that is late holds up no other, and of the chunks that
wait for one peer the first due leaves next, with one at a time between here and the kernel. Knows works that can be
waited for, no tensors.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from workers.passive import Arrival
from workers.schedules.plan import RankPlan, Receive, Send
from workers.schedules.reverse import Sum


class Waitable(Protocol):
    """A transfer under way."""

    def wait(self) -> object:
        """Block until it is done; RuntimeError if it cannot be."""


def run_lanes(
    plan: RankPlan,
    lanes: Mapping[int, Sequence[tuple[Receive, Waitable]]],
    send: Callable[[Send], Waitable],
    arrivals: list[Arrival] | None = None,
) -> None:
    """Send what the plan says; `lanes` are the receives, posted already. Blocks until all of it is done.

    Raises the first error of any thread at once; the others end when gloo gives up, and touch nothing but its buffers.
    """
    outgoing = _outgoing((*plan.sends, *(s for receive in plan.receives for s in receive.forward)), send)
    for own in plan.sends:
        outgoing[own.to].put(own)

    def listen(lane: Sequence[tuple[Receive, Waitable]]) -> None:
        for receive, work in lane:
            work.wait()
            if arrivals is not None:
                arrivals.append(Arrival(receive.source, receive.chunk, time.monotonic()))
            for following in receive.forward:
                outgoing[following.to].put(following)

    _run(outgoing, [partial(listen, lane) for lane in lanes.values()])


def run_sums(
    lanes: Mapping[int, Sequence[tuple[Sum, Sequence[Waitable]]]],
    add: Callable[[Sum], None],
    send: Callable[[Send], Waitable],
) -> None:
    """Wait for the parts of each sum, `add` them (in the lane's thread), send it on. `lanes`: parts posted already.

    Blocks until all of it is done; errors as in `run_lanes`.
    """
    outgoing = _outgoing([s.send for lane in lanes.values() for s, _ in lane if s.send], send)

    def fill(lane: Sequence[tuple[Sum, Sequence[Waitable]]]) -> None:
        for each, parts in lane:
            for part in parts:
                part.wait()
            add(each)
            if each.send is not None:
                outgoing[each.send.to].put(each.send)

    _run(outgoing, [partial(fill, lane) for lane in lanes.values()])


def _outgoing(sends: Iterable[Send], send: Callable[[Send], Waitable]) -> dict[int, Outgoing]:
    counts = Counter(each.to for each in sends)
    return {peer: Outgoing(count, send) for peer, count in sorted(counts.items())}


def _run(outgoing: Mapping[int, Outgoing], listeners: Sequence[Callable[[], None]]) -> None:
    """Each in a thread of its own; the first error is raised at once."""
    tasks = [*(each.run for each in outgoing.values()), *listeners]
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    for task in tasks:
        threading.Thread(target=_reporting, args=(task, ended), daemon=True).start()
    for _ in tasks:
        error = ended.get()
        if error is not None:
            for each in outgoing.values():
                each.abandon()
            raise error


def _reporting(task: Callable[[], None], ended: queue.SimpleQueue[BaseException | None]) -> None:
    try:
        task()
    except BaseException as error:
        ended.put(error)
    else:
        ended.put(None)


class Outgoing:
    """What waits for one peer, the first due in front; `run` sends `count` chunks and ends."""

    def __init__(self, count: int, send: Callable[[Send], Waitable]) -> None:
        self._left, self._send = count, send
        self._waiting: list[tuple[float, int, Send]] = []
        self._put = 0
        self._changed = threading.Condition()

    def put(self, send: Send) -> None:
        """Add one that waits."""
        with self._changed:
            heapq.heappush(self._waiting, (send.due, self._put, send))
            self._put += 1
            self._changed.notify()

    def abandon(self) -> None:
        """Send no more."""
        with self._changed:
            self._left = 0
            self._changed.notify()

    def run(self) -> None:
        """Block until all have left, each once the one before is with the kernel."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._left <= 0)
                if self._left <= 0:
                    return
                _, _, first = heapq.heappop(self._waiting)
                self._left -= 1
            self._send(first).wait()
