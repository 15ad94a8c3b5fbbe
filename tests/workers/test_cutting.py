"""How the ring backend cuts tensors, and that the course of a reduction ends on every rank with bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.backend.cutting import CHUNK_BYTES, WINDOW, Reduction, chunks_of_chain, chunks_per_shard, parts
from workers.schedules.plan import MAX_TRANSFERS

KIB, MIB = 2**10, 2**20


def test_parts_follow_each_other_and_differ_by_one_at_most():
    assert parts(10, 4) == ((0, 2), (2, 5), (5, 7), (7, 10))
    assert parts(2, 3) == ((0, 0), (0, 1), (1, 2))
    assert parts(0, 2) == ((0, 0), (0, 0))


@pytest.mark.parametrize(
    ("shard_bytes", "chunks"),
    [(0, 1), (1, 1), (20 * KIB, 1), (40 * KIB, 2), (64 * KIB, 4), (2 * MIB, 4), (8 * MIB, 8), (8 * MIB + 1, 9)],
)
def test_a_shard_is_cut_into_four_chunks_or_as_many_as_a_mebibyte_each_makes(shard_bytes: int, chunks: int):
    assert chunks_per_shard(shard_bytes, ranks=4) == chunks


def test_no_cut_needs_more_messages_than_a_tag_can_number():
    for ranks in (2, 3, 64):
        assert 2 * (ranks - 1) * chunks_per_shard(2**45, ranks) <= MAX_TRANSFERS
    assert chunks_of_chain(2**45) <= MAX_TRANSFERS


def test_a_broadcast_is_cut_into_64_chunks_between_64_kib_and_1_mib():
    assert [chunks_of_chain(size) for size in (1, 64 * KIB, 8 * MIB, 64 * MIB, 128 * MIB)] == [1, 1, 64, 64, 128]


def test_the_course_of_three_chunks_over_three_ranks():
    """One goes round at a time (half of three, rounded down): two hops, then the next one starts."""
    course = Reduction(ranks=3, chunks=3)
    assert course.chunk_of_number == ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))
    assert course.first == ((0, 0),)
    assert [transfer.sends for transfer in course.transfers] == [1, 2, 3, 4, 5, None]


sizes = given(ranks=st.integers(2, 9), chunks=st.integers(1, 70))


@sizes
def test_each_message_leaves_once_and_waits_only_for_earlier_ones(ranks: int, chunks: int):
    course = Reduction(ranks, chunks)
    at_start = [number for number, _ in course.first]
    later = [transfer.sends for transfer in course.transfers if transfer.sends is not None]
    assert sorted(at_start + later) == list(range((ranks - 1) * chunks))
    assert all(transfer.sends > transfer.number for transfer in course.transfers if transfer.sends is not None)


@sizes
def test_the_window_is_no_larger_than_a_shard_and_a_chunk(ranks: int, chunks: int):
    course = Reduction(ranks, chunks)
    assert course.slots <= min(chunks + 1, 2 * WINDOW)
    assert course.slots * CHUNK_BYTES <= 16 * MIB


@sizes
def test_a_ring_whose_buffers_are_all_taken_still_moves_on(ranks: int, chunks: int):
    """Every rank does what the backend does, with messages that leave only when their receiver has posted.

    All ranks are alike, so the slowest progress is that of ranks in lock step: a rank gets on when its neighbours are
    exactly as far as itself.
    """
    course = Reduction(ranks, chunks)
    posted, sent = set(range(course.ahead)), {number for number, _ in course.first}
    in_slot: dict[int, int | None] = {}
    for transfer in course.transfers:
        assert transfer.number in sent and transfer.number in posted, "the message it waits for cannot come"
        forwards = transfer.step < course.steps - 1
        in_slot[transfer.number % course.slots] = transfer.sends if forwards else None
        if transfer.sends is not None:
            sent.add(transfer.sends)
        ahead = transfer.number + course.ahead
        leaving = in_slot.get(ahead % course.slots)
        assert leaving is None or leaving in posted, "the buffer to be posted waits for a receiver that cannot post"
        posted.add(ahead)
