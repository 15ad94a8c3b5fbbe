"""Plans executed on paper: what every rank holds at the end, and how long links of constant capacity need for it."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from itertools import count

from topologies import Edge
from workers.network import Network
from workers.schedules.plan import Chunk, RankPlan, Receive, Send

Plans = Mapping[int, RankPlan]


def executed(plans: Plans) -> dict[int, list[Chunk]]:
    """What each rank holds when nothing moves any more; transfers match by (from, to, number), as tags do."""
    held = {rank: [send.chunk for send in plan.sends] for rank, plan in plans.items()}
    expected = _expected(plans)
    leaving = deque((rank, send) for rank, plan in plans.items() for send in plan.sends)
    while leaving:
        rank, send = leaving.popleft()
        receive = expected.pop((rank, send.to, send.number))
        assert receive.chunk == send.chunk
        held[send.to].append(receive.chunk)
        leaving.extend((send.to, forward) for forward in receive.forward)
    assert not expected, "somebody waits for ever"
    return held


def duration_s(plans: Plans, network: Network, element_bytes: int) -> float:
    """Seconds until the last chunk is there: each link carries one whole chunk at a time, the first due of those there.

    A rank passes on what comes in one lane in the order of its plan, as the executor does.
    """
    expected = _expected(plans)
    queue_of = {(rank, lane): _lane(plan, lane) for rank, plan in plans.items() for lane in _lanes(plan)}
    arrived: set[tuple[int, int, int]] = set()
    waiting: dict[Edge, list] = {}
    busy: set[Edge] = set()
    events: list = []
    numbers = count()

    def start(edge: Edge, now: float) -> None:
        if edge in busy or not waiting.get(edge):
            return
        _, _, rank, send, hop = heapq.heappop(waiting[edge])
        busy.add(edge)
        bits = 8.0 * element_bytes * (send.chunk.end - send.chunk.begin)
        heapq.heappush(events, (now + bits / network.capacity_bps(edge), next(numbers), rank, send, hop))

    def enter(now: float, rank: int, send: Send, hop: int) -> None:
        edge = network.routes[rank, send.to][hop]
        heapq.heappush(waiting.setdefault(edge, []), (send.due, next(numbers), rank, send, hop))
        start(edge, now)

    for rank, plan in plans.items():
        for send in plan.sends:
            enter(0.0, rank, send, 0)
    now = 0.0
    while events:
        now, _, rank, send, hop = heapq.heappop(events)
        route = network.routes[rank, send.to]
        if hop + 1 < len(route):
            enter(now, rank, send, hop + 1)
        else:
            here = send.to
            arrived.add((rank, here, send.number))
            lane = queue_of[here, expected[rank, here, send.number].lane]
            while lane and (lane[0].source, here, lane[0].number) in arrived:
                for forward in lane.popleft().forward:
                    enter(now, here, forward, 0)
        busy.discard(route[hop])
        start(route[hop], now)
    assert not any(queue_of.values()), "somebody waits for ever"
    return now


def _expected(plans: Plans) -> dict[tuple[int, int, int], Receive]:
    return {
        (receive.source, rank, receive.number): receive for rank, plan in plans.items() for receive in plan.receives
    }


def _lanes(plan: RankPlan) -> set[int]:
    return {receive.lane for receive in plan.receives}


def _lane(plan: RankPlan, lane: int) -> deque[Receive]:
    return deque(receive for receive in plan.receives if receive.lane == lane)
