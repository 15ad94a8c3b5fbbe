"""All-to-all as exchanges between pairs in which neither direction gets far ahead of the other.

On a link that is loaded both ways the acknowledgements of one direction wait behind the data of the other. Whoever has
the larger window then keeps the other one waiting, and the pair takes nearly twice as long as its link allows. So both
directions are cut into equally many chunks, and a rank sends its next one only when the peer's has come: as many are on
their way as there were at the start, and two queues that feed each other never run empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.distributed import ProcessGroupGloo, Work

from workers.backend.cutting import parts
from workers.backend.roundtrip import longest_round_trip_s

CHUNK_BYTES = 64 * 1024
AHEAD = 3
"""Chunks that leave before the first has come: enough for a processor that is late, too few to fill a queue."""

FASTEST_BPS = 1e9
"""And as many more as a path of this rate holds in its round-trip time: only news from the peer is late then."""

Rest = Callable[[], None]
"""What is left of a collective: blocks until it is done. RuntimeError when a peer is gone."""


@dataclass(frozen=True)
class _Pair:
    """What goes to and comes from one peer; `arriving` is posted already."""

    peer: int
    leaving: Sequence[torch.Tensor]
    arriving: Sequence[Work | None]


def exchange(
    group: ProcessGroupGloo, ticket: int, incoming: Sequence[torch.Tensor], outgoing: Sequence[torch.Tensor]
) -> Rest:
    """Rank r gets `outgoing[r]`, `incoming[r]` comes from it; flat bytes, of any size that both ends know.

    Begins at once; the rest blocks until all is here and has left. RuntimeError when a peer is gone. Messages of one
    pair carry the same tag and stay in order.
    """
    n, rank = group.size(), group.rank()
    pairs = [_begun(group, (rank + d) % n, ticket, incoming, outgoing) for d in range(1, n)]
    sent: list[Work] = []

    def send(number: int) -> None:
        for pair in pairs:
            if number < len(pair.leaving) and pair.leaving[number].numel():
                sent.append(group.send([pair.leaving[number]], pair.peer, ticket))

    is_bulk = any(len(pair.leaving) > AHEAD for pair in pairs)
    ahead = AHEAD + math.ceil(longest_round_trip_s() * FASTEST_BPS / 8 / CHUNK_BYTES) if is_bulk else AHEAD
    for number in range(ahead):
        send(number)
    incoming[rank].copy_(outgoing[rank])

    def rest() -> None:
        for number in range(max((len(pair.leaving) for pair in pairs), default=0)):
            for pair in pairs:
                if number >= len(pair.arriving):
                    continue
                work = pair.arriving[number]
                if work is not None:
                    work.wait()
                following = number + ahead
                if following < len(pair.leaving) and pair.leaving[following].numel():
                    sent.append(group.send([pair.leaving[following]], pair.peer, ticket))
        for work in sent:
            work.wait()

    return rest


def _begun(
    group: ProcessGroupGloo,
    peer: int,
    ticket: int,
    incoming: Sequence[torch.Tensor],
    outgoing: Sequence[torch.Tensor],
) -> _Pair:
    count = chunks(incoming[peer].numel(), outgoing[peer].numel())
    arriving = [
        group.recv([view], peer, ticket) if view.numel() else None
        for view in (incoming[peer][begin:end] for begin, end in parts(incoming[peer].numel(), count))
    ]
    leaving = [outgoing[peer][begin:end] for begin, end in parts(outgoing[peer].numel(), count)]
    return _Pair(peer, leaving, arriving)


def chunks(one_bytes: int, other_bytes: int) -> int:
    """Into how many chunks a pair cuts both of its directions: the same at both ends."""
    return max(1, -(-max(one_bytes, other_bytes) // CHUNK_BYTES))


def split(data: torch.Tensor, splits: Sequence[int], of: torch.Tensor, ranks: int) -> list[torch.Tensor]:
    """The flat `data` of tensor `of`, by rank: as many of its rows as `splits` says, equally many if that is empty.

    ValueError where that is not all of it.
    """
    rows = of.shape[0] if of.dim() else of.numel()
    if not splits and rows % ranks:
        raise ValueError(f"{rows} rows cannot be split equally among {ranks} ranks")
    counts = list(splits) or [rows // ranks] * ranks
    if len(counts) != ranks or sum(counts) != rows:
        raise ValueError(f"the splits {counts} do not make up the {rows} rows of the tensor for {ranks} ranks")
    row_bytes = data.numel() // rows if rows else 0
    return list(data.split([count * row_bytes for count in counts]))
