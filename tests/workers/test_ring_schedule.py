"""The ring plan, executed on paper: every rank ends with every element, no rank waits for what nobody sends."""

from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.schedules import ring
from workers.schedules.plan import Chunk, RankPlan, Receive, Send


def executed(plans: dict[int, RankPlan]) -> dict[int, list[Chunk]]:
    """What each rank holds when nothing moves any more; transfers match by (from, to, number), as tags do."""
    held = {rank: [send.chunk for send in plan.sends] for rank, plan in plans.items()}
    expected = {
        (receive.source, rank, receive.number): receive for rank, plan in plans.items() for receive in plan.receives
    }
    leaving = deque((rank, send) for rank, plan in plans.items() for send in plan.sends)
    while leaving:
        rank, send = leaving.popleft()
        receive = expected.pop((rank, send.to, send.number))
        assert receive.chunk == send.chunk
        held[send.to].append(receive.chunk)
        leaving.extend((send.to, forward) for forward in receive.forward)
    assert not expected, "somebody waits for ever"
    return held


def test_three_ranks_two_chunks_by_hand():
    # order 0 → 2 → 1 → 0; rank 2 receives 0's shard from 0 and passes it to 1, then receives 1's shard from 0
    plan = ring((0, 2, 1), rank=2, shard=3, chunk=2)
    assert plan.sends == (Send(1, Chunk(2, 0, 2), 0), Send(1, Chunk(2, 2, 3), 1))
    assert plan.receives == (
        Receive(0, Chunk(0, 0, 2), 0, (Send(1, Chunk(0, 0, 2), 2),)),
        Receive(0, Chunk(0, 2, 3), 1, (Send(1, Chunk(0, 2, 3), 3),)),
        Receive(0, Chunk(1, 0, 2), 2),
        Receive(0, Chunk(1, 2, 3), 3),
    )


@given(order=st.integers(2, 7).flatmap(lambda n: st.permutations(range(n))), shard=st.integers(1, 50), data=st.data())
def test_every_rank_gets_every_element_exactly_once(order: list[int], shard: int, data: st.DataObject):
    chunk = data.draw(st.integers(1, 60))
    held = executed({rank: ring(tuple(order), rank, shard, chunk) for rank in order})
    for chunks in held.values():
        for owner in order:
            pieces = sorted((c.begin, c.end) for c in chunks if c.shard == owner)
            assert pieces[0][0] == 0
            assert pieces[-1][1] == shard
            assert all(end == begin for (_, end), (begin, _) in pairwise(pieces))


def test_chunks_that_do_not_fit_into_tags_are_refused():
    with pytest.raises(ValueError, match="use larger ones"):
        ring((0, 1), rank=0, shard=40_000, chunk=1)
