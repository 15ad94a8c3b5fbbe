"""Schedules that move real bytes to wrong places: verification has to notice. Given to a job by `module:function`."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from workers.policies import RingView
from workers.schedules import ring
from workers.schedules.plan import Chunk, RankPlan

BAD_RANK = 2


def misplaced(order: tuple[int, ...], rank: int, shard: int, chunk: int) -> RankPlan:
    """The last chunk that rank 2 receives lands where another shard's last chunk belongs, and the reverse."""
    plan = ring(order, rank, shard, chunk)
    if rank != BAD_RANK:
        return plan
    *others, a, b = [r for r in plan.receives if r.chunk.end == shard]
    del others
    swapped = {a: replace(a, chunk=b.chunk, forward=()), b: replace(b, chunk=a.chunk, forward=())}
    # What it should pass on still leaves, from where the bytes really are.
    for receive, wrong in swapped.items():
        forward = tuple(replace(send, chunk=wrong.chunk) for send in receive.forward)
        swapped[receive] = replace(wrong, forward=forward)
    return replace(plan, receives=tuple(swapped.get(r, r) for r in plan.receives))


def torn(order: tuple[int, ...], rank: int, shard: int, chunk: int) -> RankPlan:
    """Nobody moves the last element of any shard: it stays what it was one collective before."""

    def cut(piece: Chunk) -> Chunk:
        return replace(piece, end=min(piece.end, shard - 1))

    plan = ring(order, rank, shard, chunk)
    return RankPlan(
        tuple(replace(s, chunk=cut(s.chunk)) for s in plan.sends),
        tuple(
            replace(r, chunk=cut(r.chunk), forward=tuple(replace(s, chunk=cut(s.chunk)) for s in r.forward))
            for r in plan.receives
        ),
    )


def hasty(order: tuple[int, ...], rank: int, shard: int, chunk: int) -> RankPlan:
    """A person's own schedule with a bug of its own."""
    raise KeyError("no such neighbour")


def leaving(order: tuple[int, ...], rank: int, shard: int, chunk: int) -> RankPlan:
    """Rank 1 leaves without a word."""
    if rank == 1:
        os._exit(3)
    return ring(order, rank, shard, chunk)


def losing(view: RingView) -> tuple[int, ...]:
    """A person's own ring policy that forgets a rank."""
    return view.listed[1:]


class Swapping:
    """A person's own ring policy as a class: swaps the first two ranks, and remembers how often."""

    def __init__(self) -> None:
        self.times = 0

    def decide(self, view: RingView) -> tuple[int, ...]:
        self.times += 1
        first, second, *others = view.current
        return (second, first, *others)


def _flag() -> Path:
    """Beside the folder that this rank logs into."""
    return Path("/proc/self/fd/1").readlink().parents[1] / "hesitates"


def hesitating(order: tuple[int, ...], rank: int, shard: int, chunk: int) -> RankPlan:
    """While the flag is there rank 1 takes it away and does nothing for two seconds, longer than its peers wait."""
    if rank == 1 and _flag().exists():
        _flag().unlink()
        time.sleep(2.0)
    return ring(order, rank, shard, chunk)


def hesitating_for_ever(order: tuple[int, ...], rank: int, shard: int, chunk: int) -> RankPlan:
    """After the first collectives rank 1 comes too late for every other."""
    if rank == 1 and _flag().exists():
        time.sleep(1.0)
    return ring(order, rank, shard, chunk)
