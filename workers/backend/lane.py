"""The data group as one collective sees it: messages by number between neighbours of the ring that holds now.

Receives are posted early and straight into their place: gloo moves data only once the receiver has posted. Nothing here
ever waits with a timeout of its own: a short one would close every connection of the group.
"""

from __future__ import annotations

import time

import torch
from torch.distributed import ProcessGroupGloo, Work

from workers.agent import Ring
from workers.collectives import tag
from workers.job import ELEMENT_BYTES
from workers.passive import Arrival
from workers.schedules.plan import Chunk


class Lane:
    """One collective of one rank. Numbers are unique per pair of ranks and direction; other collectives never match."""

    def __init__(
        self, group: ProcessGroupGloo, ring: Ring, sequence: int, arrivals: list[Arrival] | None = None
    ) -> None:
        self._arrivals = arrivals
        self._group, self._first = group, tag(ring.epoch, sequence, 0)
        self.rank, self.order, self.size = group.rank(), ring.order, group.size()
        self.place = ring.order.index(self.rank)
        self.next = ring.order[(self.place + 1) % self.size]
        self.previous = ring.order[self.place - 1]

    def send(self, view: torch.Tensor, to: int, number: int) -> Work | None:
        """`view` (contiguous) leaves for rank `to` and must not change until the work is done. None if it is empty."""
        return self._group.send([view], to, self._first + number) if view.numel() else None

    def receive(self, view: torch.Tensor, source: int, number: int) -> Work | None:
        """`view` (contiguous) will be filled from rank `source`. None if it is empty: then nothing comes."""
        return self._group.recv([view], source, self._first + number) if view.numel() else None

    def arrived(self, shard: int, view: torch.Tensor) -> None:
        """`view` has just come from the previous rank. `shard` is that rank if it had it all from the start."""
        if self._arrivals is not None:
            chunk = Chunk(shard, 0, view.nbytes // ELEMENT_BYTES)
            self._arrivals.append(Arrival(self.previous, chunk, time.monotonic()))


def done(work: Work | None) -> None:
    """Block until the message is here, or has left. RuntimeError when a peer is gone or nothing moved for too long."""
    if work is not None:
        work.wait()


def all_done(works: list[Work | None]) -> None:
    """Block until all are."""
    for work in works:
        done(work)
