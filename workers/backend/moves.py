"""Collectives that move bytes without arithmetic: all_gather and broadcast, in the ring's present order.

All receives are posted before anything is sent, straight into the output, and what is passed on is sent out of it:
beyond the output no memory is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.backend.cutting import chunks_of_chain, chunks_per_shard, parts
from workers.backend.lane import Lane, all_done, done


def all_gather(lane: Lane, shards: Sequence[torch.Tensor]) -> None:
    """Fill every rank's shard from its owner. `shards[r]` is flat and contiguous, of any size; own is in its place.

    Each shard goes round the ring in n−1 hops, chunk by chunk: every edge carries the same bytes, the slowest sets the
    pace. Blocks until all is here and what this rank sends has left.
    """
    count = chunks_per_shard(max(shard.nbytes for shard in shards), lane.size)
    gathering = GatherRound(lane, [cut(shard, count) for shard in shards], first_number=0)
    for chunk in range(count):
        gathering.own_chunk(chunk)
    gathering.pass_on()


def cut(shard: torch.Tensor, count: int) -> list[torch.Tensor]:
    """`count` views of a flat shard."""
    return [shard[begin:end] for begin, end in parts(shard.numel(), count)]


class GatherRound:
    """An all_gather whose receives are posted when it is made and whose own chunks leave as `own_chunk` says."""

    def __init__(self, lane: Lane, pieces: Sequence[Sequence[torch.Tensor]], first_number: int) -> None:
        self._lane, self._pieces, self._first = lane, pieces, first_number
        self._count = len(pieces[0])
        self._arriving = [
            lane.receive(self._piece(step + 1, chunk), lane.previous, self._number(step, chunk))
            for step in range(lane.size - 1)
            for chunk in range(self._count)
        ]
        self._leaving = []

    def _piece(self, back: int, chunk: int) -> torch.Tensor:
        """Of the shard of the rank `back` places before this one."""
        return self._pieces[self._lane.order[self._lane.place - back]][chunk]

    def _number(self, step: int, chunk: int) -> int:
        return self._first + step * self._count + chunk

    def own_chunk(self, chunk: int) -> None:
        """This chunk of the own shard is final: it leaves."""
        self._leaving.append(self._lane.send(self._piece(0, chunk), self._lane.next, self._number(0, chunk)))

    def pass_on(self) -> None:
        """Block until every shard is here and passed on. All own chunks have been given before."""
        lane = self._lane
        for position, work in enumerate(self._arriving):
            done(work)
            step, chunk = divmod(position, self._count)
            if self._first == 0:  # else the owner had to wait for its chunks itself
                lane.arrived(lane.order[lane.place - step - 1], self._piece(step + 1, chunk))
            if step + 2 < lane.size:
                piece = self._piece(step + 1, chunk)
                self._leaving.append(lane.send(piece, lane.next, self._number(step + 1, chunk)))
        all_done(self._leaving)


def broadcast(lane: Lane, data: torch.Tensor, root: int) -> None:
    """`data` (flat, contiguous) of rank `root` to everybody, as a pipelined chain that follows the ring from the root.

    The ring's edge into the root carries nothing. Takes S/rate plus one chunk per further rank.
    """
    distance = (lane.place - lane.order.index(root)) % lane.size
    pieces = cut(data, chunks_of_chain(data.nbytes))
    is_last = distance == lane.size - 1
    arriving = [lane.receive(p, lane.previous, number) for number, p in enumerate(pieces)] if distance else []
    leaving = []
    for number, piece in enumerate(pieces):
        if distance:
            done(arriving[number])
        if not is_last:
            leaving.append(lane.send(piece, lane.next, number))
    all_done(leaving)
