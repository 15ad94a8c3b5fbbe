"""Small collectives by dissemination: ⌈log₂ n⌉ steps in which every rank doubles what it knows, where a ring takes n−1.

Every rank ends with every rank's part (J. Bruck et al., IEEE TPDS 8(11), 1997); reductions then add up at home, in the
order of the ranks, so that all are bit-equal. More bytes, fewer messages and steps: right where latency counts. The
messages use connections that bulk data never blocks; the first leaves in the calling thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch.distributed import ProcessGroupGloo, ReduceOp

from workers.backend.reductions import COMBINE, average

_TAGS = 2**30

Rest = Callable[[], None]
"""What is left of a collective: blocks until it is done. RuntimeError when a peer is gone."""


def users_tag(tag: int) -> int:
    """The tag under which a script's own message travels. ValueError beyond 30 bits.

    gloo's tags have 31 bits: even ones are the script's, odd ones count disseminations.
    """
    if not 0 <= tag < _TAGS:
        raise ValueError(f"tag {tag}: the ring backend serves tags from 0 to {_TAGS - 1}")
    return 2 * tag


class Dissemination:
    """Small collectives of one group. All ranks begin them in the same order."""

    def __init__(self, group: ProcessGroupGloo) -> None:
        self._group, self._rank, self._size = group, group.rank(), group.size()
        self._steps = [
            (d, min(d, self._size - d)) for d in (2**k for k in range(self._size.bit_length())) if d < self._size
        ]
        self._count = itertools.count()

    def ticket(self) -> int:
        """The tag of the next dissemination."""
        return 2 * (next(self._count) % _TAGS) + 1

    def all_gather(self, own: torch.Tensor, store: Callable[[torch.Tensor], None]) -> Rest:
        """`store` gets everybody's part of `own`'s shape, stacked by rank."""
        rows = self._rows(own)
        rest = self._spread(rows, self.ticket())

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
        n, rank, group, ticket = self._size, self._rank, self._group, self.ticket()
        peers = [(rank + distance) % n for distance in range(1, n)]
        works = [group.recv([incoming[p]], p, ticket) for p in reversed(peers) if incoming[p].numel()]
        works += [group.send([outgoing[p]], p, ticket) for p in peers if outgoing[p].numel()]
        incoming[rank].copy_(outgoing[rank])
        return lambda: [work.wait() for work in works] and None

    def broadcast(self, data: torch.Tensor, root: int) -> Rest:
        """`data` (flat bytes) of rank `root` to everybody, straight from there: one step."""
        ticket, group = self.ticket(), self._group
        if not data.numel():
            return lambda: None
        if self._rank != root:
            return group.recv([data], root, ticket).wait
        works = [group.send([data], peer, ticket) for peer in range(self._size) if peer != root]
        return lambda: [work.wait() for work in works] and None

    def barrier(self, ticket: int) -> Rest:
        """Done when every rank has come here."""
        return self._spread(torch.zeros((self._size, 1), dtype=torch.uint8), ticket)

    def _rows(self, own: torch.Tensor) -> torch.Tensor:
        rows = own.new_empty((self._size, *own.shape))
        rows[0] = own.detach()
        return rows

    def _reduce(
        self, rows: torch.Tensor, part: slice, op: ReduceOp.RedOpType, store: Callable[[torch.Tensor], object]
    ) -> Rest:
        rest = self._spread(rows, self.ticket())

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

    def _spread(self, rows: torch.Tensor, ticket: int) -> Rest:
        """Row 0 is this rank's; row i becomes that of the rank i places after it."""
        if not rows.numel():
            return lambda: None
        n, rank, group = self._size, self._rank, self._group
        arriving = [group.recv([rows[d : d + count]], (rank + d) % n, ticket) for d, count in self._steps]
        leaving = []

        def send(step: int) -> None:
            if step < len(self._steps):
                d, count = self._steps[step]
                leaving.append(group.send([rows[:count]], (rank - d) % n, ticket))

        send(0)

        def rest() -> None:
            for step, work in enumerate(arriving):
                work.wait()
                send(step + 1)
            for work in leaving:
                work.wait()

        return rest
