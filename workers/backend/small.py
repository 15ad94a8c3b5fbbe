"""Small collectives by dissemination: ⌈log₂ n⌉ steps in which every rank doubles what it knows, where a ring takes n−1.

Every rank ends with every rank's part (J. Bruck et al., IEEE TPDS 8(11), 1997); reductions then add up at home, in the
order of the ranks, so that all are bit-equal. More bytes, fewer messages and steps: right where latency counts. Few
ranks take one step, as does what has a root or a message of its own for each. All use connections that bulk data never
blocks; the first message leaves in the calling thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.distributed import ReduceOp

from workers.backend.letters import LETTER_BYTES, Letters
from workers.backend.reductions import COMBINE, average
from workers.backend.streams import Streams
from workers.backend.ways import Rest, nothing
from workers.backend.written import memory_of

DIRECT_RANKS = 4
"""So few tell each other directly: one step, and hardly more messages."""


class Dissemination:
    """Small collectives of one group. All ranks begin them in the same order.

    What is larger than a letter goes over `streams`.
    """

    def __init__(self, rank: int, size: int, letters: Letters, streams: Streams) -> None:
        self._rank, self._size = rank, size
        self._letters, self._streams = letters, streams
        self._others = [(rank + distance) % size for distance in range(1, size)]
        """Those that follow come first, so that not all begin with the same."""
        self._collectives = itertools.count()
        if size <= DIRECT_RANKS:
            self._steps, self._at_once = [(d, 1) for d in range(1, size)], size - 1
        else:
            self._steps = [(d, min(d, size - d)) for d in (2**k for k in range(size.bit_length())) if d < size]
            self._at_once = 1

    def break_off(self) -> None:
        """Whoever waits here has an error now. Any thread; idempotent."""
        self._letters.break_off()
        self._streams.break_off()

    def linger(self, most_s: float) -> None:
        """Wait until all that was sent has arrived, but no longer than about that."""
        self._letters.linger(most_s)
        self._streams.linger(most_s)

    def all_gather(self, own: torch.Tensor, store: Callable[[torch.Tensor], None]) -> Rest:
        """`store` gets everybody's part of `own`'s shape, stacked by rank."""
        rows = self._rows(own)
        rest = self._spread(rows)()

        def finish() -> None:
            rest()
            store(rows.roll(self._rank, 0))

        return finish

    def all_reduce(self, tensor: torch.Tensor, op: ReduceOp.RedOpType) -> Rest:
        """Reduce it in place."""
        return self._reduce(self._rows(tensor), slice(None), op, tensor.detach().copy_)

    def reduce_scatter(self, shards: Sequence[torch.Tensor], output: torch.Tensor, op: ReduceOp.RedOpType) -> Rest:
        """`output` becomes the reduction of this rank's shard; `shards` are flat."""
        begin = sum(shard.numel() for shard in shards[: self._rank])
        mine = slice(begin, begin + output.numel())
        return self._reduce(
            self._rows(torch.cat(list(shards))), mine, op, lambda total: output.detach().copy_(total.view_as(output))
        )

    def all_to_all(self, incoming: Sequence[memoryview], outgoing: Sequence[memoryview]) -> Rest:
        """Rank r gets `outgoing[r]`, `incoming[r]` comes from it; of any size, large too: all pairs at once."""
        rank, peers = self._rank, self._others
        if not len(incoming) == len(outgoing) == self._size or len(incoming[rank]) != len(outgoing[rank]):
            raise ValueError("one tensor is needed for each rank, and that for this one as large as that from it")
        ticket = next(self._collectives)
        leaving = [self._send(outgoing[p], p, ticket) for p in peers if len(outgoing[p])]
        arriving = [self._receive(incoming[p], p, ticket) for p in reversed(peers) if len(incoming[p])]

        def rest() -> None:
            _all(arriving[:1])
            incoming[rank][:] = outgoing[rank]  # not before: others on this machine have not begun to send
            _all(arriving[1:] + leaving)

        return rest

    def broadcast(self, data: memoryview, root: int) -> Rest:
        """`data` of rank `root` to everybody, straight from there: one step."""
        ticket = next(self._collectives)
        if not len(data):
            return nothing
        if self._rank != root:
            return self._receive(data, root, ticket)
        return partial(_all, [self._send(data, peer, ticket) for peer in self._others])

    def gather(self, incoming: Sequence[memoryview], own: memoryview, root: int) -> Rest:
        """Rank `root` gets everybody's `own`, that of rank r into `incoming[r]`; of any size, large too."""
        ticket = next(self._collectives)
        if not len(own):
            return nothing
        if self._rank != root:
            return self._send(own, root, ticket)
        incoming[root][:] = own
        return partial(_all, [self._receive(incoming[peer], peer, ticket) for peer in self._others])

    def scatter(self, own: memoryview, outgoing: Sequence[memoryview], root: int) -> Rest:
        """Rank `root` sends `outgoing[r]` to rank r, where it becomes `own`; of any size, large too."""
        ticket = next(self._collectives)
        if not len(own):
            return nothing
        if self._rank != root:
            return self._receive(own, root, ticket)
        own[:] = outgoing[root]
        return partial(_all, [self._send(outgoing[peer], peer, ticket) for peer in self._others])

    def barrier(self) -> Callable[[], Rest]:
        """Takes its place among the others now; done when every rank has come to the begin of what is returned."""
        return self._spread(torch.zeros((self._size, 1), dtype=torch.uint8, device="cpu"))

    def _rows(self, own: torch.Tensor) -> torch.Tensor:
        rows = own.new_empty((self._size, *own.shape))
        rows[0] = own.detach()
        return rows

    def _reduce(
        self, rows: torch.Tensor, part: slice, op: ReduceOp.RedOpType, store: Callable[[torch.Tensor], object]
    ) -> Rest:
        rest = self._spread(rows)()

        def finish() -> None:
            rest()
            combine = COMBINE[op]
            total, *others = (rows[(rank - self._rank) % self._size][part] for rank in range(self._size))
            for other in others:
                combine(total, other, out=total)
            if op == ReduceOp.AVG:
                average(total, self._size)
            store(total)

        return finish

    def _spread(self, rows: torch.Tensor) -> Callable[[], Rest]:
        """Row 0 is this rank's; row i becomes that of the rank i places after it.

        Takes its place among all messages now; what is returned begins it.
        """
        n, rank, ticket = self._size, self._rank, next(self._collectives)
        if not rows.numel():
            return lambda: nothing
        memory = memory_of(rows)
        row = len(memory) // n
        places = [(memory[d * row : (d + count) * row], (rank + d) % n) for d, count in self._steps]
        parts = [(memory[: count * row], (rank - d) % n) for d, count in self._steps]
        arriving = [self._letters.receive(place, source, ticket) for place, source in places]
        numbers = [self._letters.reserve(to) for _, to in parts]

        def send(step: int) -> Rest:
            part, to = parts[step]
            return self._letters.send(part, to, numbers[step], ticket)

        def begin() -> Rest:
            leaving = [send(step) for step in range(self._at_once)]

            def rest() -> None:
                for step, arrived in enumerate(arriving, 1):
                    arrived()
                    if len(leaving) == step < len(parts):
                        leaving.append(send(step))
                _all(leaving)

            return rest

        return begin

    def _receive(self, place: memoryview, source: int, ticket: int) -> Rest:
        if len(place) <= LETTER_BYTES:
            return self._letters.receive(place, source, ticket)
        return self._streams.receive(place, source, ticket)

    def _send(self, text: memoryview, to: int, ticket: int) -> Rest:
        if len(text) > LETTER_BYTES:
            return self._streams.send(text, to, ticket)
        return self._letters.send(text, to, self._letters.reserve(to), ticket)


def _all(waits: Sequence[Rest]) -> None:
    for wait in waits:
        wait()
