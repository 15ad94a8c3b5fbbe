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
from torch.distributed import ProcessGroupGloo, ReduceOp

from workers.backend.letters import LETTER_BYTES, Letters
from workers.backend.reductions import COMBINE, average

_TAGS, _COUNTS = 2**30, 2**29

DIRECT_RANKS = 4
"""So few tell each other directly: one step, and hardly more messages."""

Rest = Callable[[], None]
"""What is left of a collective: blocks until it is done. RuntimeError when a peer is gone."""


def users_tag(tag: int) -> int:
    """The tag under which a script's own message travels. ValueError beyond 30 bits.

    gloo's tags have 31 bits: even ones are the script's, odd ones count collectives and letters.
    """
    if not 0 <= tag < _TAGS:
        raise ValueError(f"tag {tag}: the ring backend serves tags from 0 to {_TAGS - 1}")
    return 2 * tag


class Dissemination:
    """Small collectives of one group. All ranks begin them in the same order."""

    def __init__(self, group: ProcessGroupGloo) -> None:
        self._group, self._rank, self._size = group, group.rank(), group.size()
        n = self._size
        if n <= DIRECT_RANKS:
            self._steps, self._at_once = [(d, 1) for d in range(1, n)], n - 1
        else:
            self._steps = [(d, min(d, n - d)) for d in (2**k for k in range(n.bit_length())) if d < n]
            self._at_once = 1
        self._letters = Letters(group, lambda number: 4 * (number % (_COUNTS - 1)) + 3)
        self.replenish = self._letters.replenish
        """To be called once a collective has begun."""
        self._count = itertools.count()

    def ticket(self) -> int:
        """The tag of the larger messages of the next collective."""
        return 4 * (next(self._count) % _COUNTS) + 1

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

    def all_to_all(self, incoming: Sequence[torch.Tensor], outgoing: Sequence[torch.Tensor]) -> Rest:
        """Rank r gets `outgoing[r]`, `incoming[r]` comes from it; flat, of any size, large too: all pairs at once.

        Every receive is posted before anything is sent. gloo tells the sender of a receive over the connection that
        carries data the other way: behind data, that would wait until all of it is through, and each pair would talk
        one way after the other.
        """
        rank, ticket, peers = self._rank, self.ticket(), self._others()
        arriving = [self._receive(incoming[p], p, ticket) for p in reversed(peers) if incoming[p].numel()]
        leaving = [self._send(outgoing[p], p, ticket) for p in peers if outgoing[p].numel()]
        incoming[rank].copy_(outgoing[rank])
        return partial(_all, arriving + leaving)

    def broadcast(self, data: torch.Tensor, root: int) -> Rest:
        """`data` (flat bytes) of rank `root` to everybody, straight from there: one step."""
        ticket = self.ticket()
        if not data.numel():
            return lambda: None
        if self._rank != root:
            return self._receive(data, root, ticket)
        return partial(_all, [self._send(data, peer, ticket) for peer in self._others()])

    def gather(self, incoming: Sequence[torch.Tensor], own: torch.Tensor, root: int) -> Rest:
        """Rank `root` gets everybody's `own`, that of rank r into `incoming[r]`; flat, of any size, large too."""
        ticket = self.ticket()
        if not own.numel():
            return lambda: None
        if self._rank != root:
            return self._send(own, root, ticket)
        incoming[root].copy_(own)
        return partial(_all, [self._receive(incoming[peer], peer, ticket) for peer in self._others()])

    def scatter(self, own: torch.Tensor, outgoing: Sequence[torch.Tensor], root: int) -> Rest:
        """Rank `root` sends `outgoing[r]` to rank r, where it becomes `own`; flat, of any size, large too."""
        ticket = self.ticket()
        if not own.numel():
            return lambda: None
        if self._rank != root:
            return self._receive(own, root, ticket)
        own.copy_(outgoing[root])
        return partial(_all, [self._send(outgoing[peer], peer, ticket) for peer in self._others()])

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
        n, rank, ticket = self._size, self._rank, self.ticket()
        if not rows.numel():
            return lambda: lambda: None
        arriving = [self._receive(rows[d : d + count], (rank + d) % n, ticket) for d, count in self._steps]
        parts = [(rows[:count], (rank - d) % n) for d, count in self._steps]
        tags = [self._tag(part, to, ticket) for part, to in parts]

        def send(step: int) -> Rest:
            part, to = parts[step]
            return self._begin(part, to, tags[step])

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

    def _others(self) -> list[int]:
        """All ranks but this one; those that follow it come first, so that not all begin with the same."""
        return [(self._rank + distance) % self._size for distance in range(1, self._size)]

    def _receive(self, into: torch.Tensor, source: int, ticket: int) -> Rest:
        if into.nbytes <= LETTER_BYTES:
            return self._letters.receive(into, source)
        return self._group.recv([into], source, ticket).wait

    def _send(self, data: torch.Tensor, to: int, ticket: int) -> Rest:
        return self._begin(data, to, self._tag(data, to, ticket))

    def _begin(self, data: torch.Tensor, to: int, tag: int) -> Rest:
        if data.nbytes <= LETTER_BYTES:
            return self._letters.send(data, to, tag)
        return self._group.send([data], to, tag).wait

    def _tag(self, data: torch.Tensor, to: int, ticket: int) -> int:
        return self._letters.reserve(to) if data.nbytes <= LETTER_BYTES else ticket


def _all(waits: Sequence[Rest]) -> None:
    for wait in waits:
        wait()
