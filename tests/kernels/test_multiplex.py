"""Many connections over one line: in order, each with its own window, closed one way or both, never garbled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.kernels.multiplex import LINE_BYTES, MAX_PAYLOAD, WINDOW_BYTES, Happened, Kind, LineError, Multiplexer


def settled(outer, inner, pieces=None):
    """All that can cross the line does, in pieces of so many bytes; what happened at the inner end, at the outer."""
    found = {id(outer): [], id(inner): []}
    moved = True
    while moved:
        moved = False
        for source, target in ((outer, inner), (inner, outer)):
            if count := min(source.may_write(), pieces.pop() if pieces else 2**20):
                piece = bytes(source.outgoing[:count])
                source.wrote(count)
                found[id(target)] += target.receive(piece)
                moved = True
    return found[id(inner)], found[id(outer)]


def opened():
    outer, inner = Multiplexer(inner=False), Multiplexer(inner=True)
    number = outer.open("control")
    assert settled(outer, inner) == ([Happened(Kind.OPEN, number, b"control")], [])
    return outer, inner, number


@given(
    st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=9000)), max_size=6),
    st.lists(st.integers(1, 50), max_size=200),
)
def test_what_is_sent_arrives_on_its_connection_in_order_however_the_line_cuts_it(sent, pieces):
    outer, inner = Multiplexer(inner=False), Multiplexer(inner=True)
    numbers = [outer.open("echo") for _ in range(4)]
    for which, data in sent:
        outer.send(numbers[which], data)
    happened, _ = settled(outer, inner, pieces)
    for which, number in enumerate(numbers):
        arrived = b"".join(each.payload for each in happened if (each.kind, each.number) == (Kind.DATA, number))
        assert arrived == b"".join(data for each, data in sent if each == which)


def test_the_outer_end_writes_no_more_than_the_line_holds_before_it_has_been_read():
    outer, inner, number = opened()
    outer.send(number, bytes(WINDOW_BYTES))
    written = []
    while outer.may_write():
        written.append(bytes(outer.outgoing[: outer.may_write()]))
        outer.wrote(len(written[-1]))
    # up to what is told in one go may have been read already, and not been told
    assert LINE_BYTES - 512 < sum(map(len, written)) <= LINE_BYTES
    for piece in written:
        list(inner.receive(piece))
    list(outer.receive(bytes(inner.outgoing)))
    assert outer.may_write() > LINE_BYTES - 512


def test_the_inner_end_writes_as_it_likes():
    outer, inner, number = opened()
    inner.send(number, bytes(WINDOW_BYTES))
    assert inner.may_write() > WINDOW_BYTES
    assert outer.may_write() == 0


def test_no_more_than_a_window_is_under_way_until_the_other_end_has_taken_half_of_it():
    outer, inner, number = opened()
    outer.send(number, bytes(WINDOW_BYTES))
    assert outer.may_send(number) == 0
    with pytest.raises(ValueError, match="room for 0 bytes"):
        outer.send(number, b"x")
    settled(outer, inner)

    # one byte less than half a window is not worth a frame
    inner.took(number, WINDOW_BYTES // 2 - 1)
    assert settled(outer, inner) == ([], [])
    assert outer.may_send(number) == 0
    inner.took(number, 1)
    assert settled(outer, inner) == ([], [Happened(Kind.ROOM, number)])
    assert outer.may_send(number) == WINDOW_BYTES // 2


def test_one_connection_that_is_not_read_leaves_the_others_theirs():
    outer, _, number = opened()
    other = outer.open("control")
    outer.send(number, bytes(WINDOW_BYTES))
    assert outer.may_send(other) == WINDOW_BYTES


def test_a_connection_that_one_end_has_ended_still_carries_the_answer():
    outer, inner, number = opened()
    outer.send(number, b"question")
    outer.end(number)
    assert [each.kind for each in settled(outer, inner)[0]] == [Kind.DATA, Kind.END]
    assert outer.may_send(number) == 0
    inner.send(number, b"answer")
    inner.end(number)
    assert settled(outer, inner)[1] == [Happened(Kind.DATA, number, b"answer"), Happened(Kind.END, number)]
    assert outer.numbers == inner.numbers == set()


def test_what_was_under_way_when_a_connection_was_reset_is_nobodys():
    outer, inner, number = opened()
    inner.reset(number)
    outer.send(number, b"too late")
    assert settled(outer, inner) == ([], [Happened(Kind.RESET, number)])
    assert outer.may_send(number) == 0
    assert outer.numbers == inner.numbers == set()


@pytest.mark.parametrize(
    "line",
    [
        b"\x00" * 7,
        b"\x07" + b"\x00" * 6,
        Kind.DATA.to_bytes(1) + b"\x00\x00\x00\x01" + (MAX_PAYLOAD + 1).to_bytes(2),
        Kind.OPEN.to_bytes(1) + b"\x00\x00\x00\x01\x00\x00",
        Kind.ROOM.to_bytes(1) + b"\x00\x00\x00\x01\x00\x01x",
    ],
    ids=["no kind", "unknown kind", "too long", "opened twice", "no room"],
)
def test_what_no_multiplexer_says_is_an_error(line):
    _, inner, _ = opened()
    with pytest.raises(LineError):
        list(inner.receive(line))


def test_an_end_that_sends_more_than_it_may_is_an_error():
    _, inner, number = opened()
    frame = Kind.DATA.to_bytes(1) + number.to_bytes(4) + MAX_PAYLOAD.to_bytes(2) + bytes(MAX_PAYLOAD)
    list(inner.receive(frame * (WINDOW_BYTES // MAX_PAYLOAD)))
    with pytest.raises(LineError, match="more than it may"):
        list(inner.receive(frame))
