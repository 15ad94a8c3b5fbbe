"""The ring plan, executed on paper: every rank ends with every element, no rank waits for what nobody sends."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper import executed

from workers.schedules import ring
from workers.schedules.plan import Chunk, Receive, Send


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
