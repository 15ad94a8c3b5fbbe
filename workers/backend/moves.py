"""Collectives that move bytes without arithmetic: all_gather and broadcast, in the ring's present order.

Receives go straight into the output, and what is passed on is sent out of it: beyond the output no memory is needed.
The first are posted before anything is sent, the others while that is on its way: each costs a message too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.distributed import Work

from workers.backend.cutting import chunks_of_chain, chunks_per_shard, parts
from workers.backend.lane import Lane, all_done, done


def all_gather(lane: Lane, shards: Sequence[torch.Tensor], own: torch.Tensor) -> Iterator[None]:
    """Fill every rank's shard from its owner, the own one from `own`. All are flat and contiguous, of any size.

    Each shard goes round the ring in n−1 hops, chunk by chunk: every edge carries the same bytes, the slowest sets the
    pace. Blocks until all is here and what this rank sends has left; yields before, when the first chunks leave.
    """
    count = chunks_per_shard(max(shard.nbytes for shard in shards), lane.size)
    gathering = GatherRound(lane, [cut(shard, count) for shard in shards], first_number=0)
    gathering.post(count)
    for chunk, piece in enumerate(cut(own, count)):
        gathering.own_chunk(chunk, piece)
    yield
    gathering.post()
    shards[lane.rank].copy_(own)
    gathering.pass_on()


def cut(shard: torch.Tensor, count: int) -> list[torch.Tensor]:
    """`count` views of a flat shard."""
    return [shard[begin:end] for begin, end in parts(shard.numel(), count)]


class GatherRound:
    """An all_gather whose receives are posted when `post` says so and whose own chunks leave as `own_chunk` says."""

    def __init__(self, lane: Lane, pieces: Sequence[Sequence[torch.Tensor]], first_number: int) -> None:
        self._lane, self._pieces, self._first = lane, pieces, first_number
        self._count = len(pieces[0])
        self._arriving: list[Work | None] = []
        self._leaving: list[Work | None] = []

    def post(self, until: int | None = None) -> None:
        """Post the receives that are not posted, of the first `until` or of all."""
        all_of_them = self._count * (self._lane.size - 1)
        for position in range(len(self._arriving), all_of_them if until is None else min(until, all_of_them)):
            step, chunk = divmod(position, self._count)
            piece, number = self._piece(step + 1, chunk), self._number(step, chunk)
            self._arriving.append(self._lane.receive(piece, self._lane.previous, number))

    def _piece(self, back: int, chunk: int) -> torch.Tensor:
        """Of the shard of the rank `back` places before this one."""
        return self._pieces[self._lane.order[self._lane.place - back]][chunk]

    def _number(self, step: int, chunk: int) -> int:
        return self._first + step * self._count + chunk

    def own_chunk(self, chunk: int, piece: torch.Tensor) -> None:
        """This chunk of the own shard is final: it leaves."""
        self._leaving.append(self._lane.send(piece, self._lane.next, self._number(0, chunk)))

    def pass_on(self) -> None:
        """Block until every shard is here and passed on. All is posted, and all own chunks have been given before."""
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


def broadcast(lane: Lane, data: torch.Tensor, root: int) -> Iterator[None]:
    """`data` (flat, contiguous) of rank `root` to everybody, as a pipelined chain that follows the ring from the root.

    The ring's edge into the root carries nothing. Takes S/rate plus one chunk per further rank. Yields once
    receives are posted.
    """
    distance = (lane.place - lane.order.index(root)) % lane.size
    pieces = cut(data, chunks_of_chain(data.nbytes))
    is_last = distance == lane.size - 1
    arriving = [lane.receive(p, lane.previous, number) for number, p in enumerate(pieces)] if distance else []
    leaving = []
    yield
    for number, piece in enumerate(pieces):
        if distance:
            done(arriving[number])
        if not is_last:
            leaving.append(lane.send(piece, lane.next, number))
    all_done(leaving)
