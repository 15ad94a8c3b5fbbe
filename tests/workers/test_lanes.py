"""Lanes that do not wait for one another, over transfers that end when the test says so."""

from __future__ import annotations

import threading

import pytest

from workers.lanes import Outgoing, run_lanes
from workers.schedules.plan import Chunk, RankPlan, Receive, Send

HANGING_S = 30.0


class Transfer:
    """Ends when it is told to, or fails."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._error: RuntimeError | None = None

    def end(self, error: RuntimeError | None = None) -> None:
        self._error = error
        self._ended.set()

    def wait(self) -> None:
        assert self._ended.wait(HANGING_S)
        if self._error:
            raise self._error


def ended() -> Transfer:
    transfer = Transfer()
    transfer.end()
    return transfer


def test_a_late_lane_holds_up_no_other():
    # given two receives in two lanes, each passed on to rank 3
    first = Receive(1, Chunk(1, 0, 4), 0, (Send(3, Chunk(1, 0, 4), 0),), lane=0)
    second = Receive(2, Chunk(2, 0, 4), 0, (Send(3, Chunk(2, 0, 4), 1),), lane=1)
    late, sent, second_left = Transfer(), [], threading.Event()

    def send(chunk: Send) -> Transfer:
        sent.append(chunk.number)
        if chunk.number == 1:
            second_left.set()
        return ended()

    plan = RankPlan((), (first, second))
    run = threading.Thread(target=run_lanes, args=(plan, {0: [(first, late)], 1: [(second, ended())]}, send))
    run.start()
    # when the first does not come, then the second has left nevertheless
    assert second_left.wait(HANGING_S)
    late.end()
    run.join(HANGING_S)
    assert sent == [1, 0]


def test_what_is_due_first_leaves_first_and_one_chunk_at_a_time_is_on_its_way():
    # given three own chunks that wait for a peer, and one to pass on that is due before the second
    sent, under_way = [], []

    class Watched(Transfer):
        def wait(self) -> None:
            under_way.append(len(sent) - len(under_way))

    def send(chunk: Send) -> Watched:
        sent.append(chunk.number)
        return Watched()

    outgoing = Outgoing(4, send)
    for number, due in ((0, 0.0), (1, 0.5), (2, 0.9), (9, 0.1)):
        outgoing.put(Send(1, Chunk(0, number, number + 1), number, due))
    # when they leave
    outgoing.run()
    # then in the order in which they are due, each when the one before has left
    assert sent == [0, 9, 1, 2]
    assert under_way == [1, 1, 1, 1]


def test_the_first_failure_is_raised_while_others_still_wait():
    broken, stuck = Transfer(), Transfer()
    a, b = Receive(1, Chunk(1, 0, 4), 0, lane=0), Receive(2, Chunk(2, 0, 4), 0, (Send(3, Chunk(2, 0, 4), 0),), lane=1)
    broken.end(RuntimeError("connection closed by rank 1"))
    with pytest.raises(RuntimeError, match="closed by rank 1"):
        run_lanes(RankPlan((), (a, b)), {0: [(a, broken)], 1: [(b, stuck)]}, lambda _: ended())
    stuck.end()
