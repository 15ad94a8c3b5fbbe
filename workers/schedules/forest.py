"""A schedule as a forest: for every rank the trees along which its shard travels, and what share of it each carries.

Ring, several rings and packed trees are all forests; one function turns any of them into what each rank does, another
says how long links of given capacity need for it. Pure; knows neither gloo nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from topologies.model import Edge
from workers.network import Network, Order, Pair, loads, time_s
from workers.schedules.plan import MAX_TRANSFERS, Chunk, RankPlan, Receive, Send, chunks_of


@dataclass(frozen=True)
class Tree:
    """`edges` (parent, child) reach every other rank once from `root`, parents before their children.

    `share` is the part of the root's shard that travels along it; those of one root add up to 1. Receives of one
    `lane` come in the order of the plan at every rank; lanes are independent of each other. Where chunks wait for the
    same link, those of `paced` trees take turns so that all trees advance together; others go nearest shard first.
    """

    root: int
    edges: tuple[Pair, ...]
    share: float = 1.0
    lane: int = 0
    paced: bool = False

    @cached_property
    def depths(self) -> Mapping[int, int]:
        """Hops from the root, by rank."""
        depths = {self.root: 0}
        for parent, child in self.edges:
            depths[child] = depths[parent] + 1
        return depths


Forest = tuple[Tree, ...]

CHUNKS_A_TREE = 20
SMALLEST_CHUNK = 4096
"""Elements. Trees are cut finer than asked for, since the last rank waits a chunk's time for every hop, but not finer
than this: each chunk costs some 100 µs of a processor on its way."""


def check(forest: Forest, ranks: int) -> None:
    """ValueError unless every rank's whole shard reaches every rank exactly once."""
    for root in range(ranks):
        trees = [tree for tree in forest if tree.root == root]
        if not math.isclose(sum(tree.share for tree in trees), 1.0, rel_tol=1e-6):
            raise ValueError(f"the trees of rank {root} do not carry its whole shard")
    for tree in forest:
        reached = {tree.root}
        for parent, child in tree.edges:
            if parent not in reached or child in reached:
                raise ValueError(f"{tree} is no tree from its root down")
            reached.add(child)
        if reached != set(range(ranks)):
            raise ValueError(f"{tree} does not reach every rank")


def along_ring(order: Order, share: float = 1.0, lane: int = 0) -> Forest:
    """Every shard travels once around the ring."""
    n = len(order)
    places = {rank: place for place, rank in enumerate(order)}
    return tuple(
        Tree(root, tuple((order[(p + k) % n], order[(p + k + 1) % n]) for k in range(n - 1)), share, lane)
        for root, p in sorted(places.items())
    )


def plan_of(forest: Forest, rank: int, shard: int, chunk: int) -> RankPlan:
    """What `rank` does: shards have `shard` elements, cut per tree into chunks of at most `chunk`.

    Transfers of one pair are numbered alike at both ends. ValueError if they are too many for a tag.
    """
    sends: list[Send] = []
    receives: list[tuple[int, int, Receive]] = []
    numbers: dict[Pair, int] = {}
    for tree, begin, end in _ranges(forest, shard):
        children: dict[int, list[int]] = {}
        for parent, child in tree.edges:
            children.setdefault(parent, []).append(child)
        parent_of = {child: parent for parent, child in tree.edges}
        for piece in chunks_of(tree.root, end - begin, _chunk_of(tree, chunk, end - begin, SMALLEST_CHUNK)):
            moved = Chunk(tree.root, begin + piece.begin, begin + piece.end)
            number = {pair: _next(numbers, pair) for pair in tree.edges}
            part = piece.begin / (end - begin)
            due = part if tree.paced else part + tree.depths[rank]
            forward = tuple(Send(child, moved, number[rank, child], due, tree.lane) for child in children.get(rank, ()))
            if rank == tree.root:
                sends += forward
            else:
                source = parent_of[rank]
                due = part if tree.paced else part + tree.depths[source]
                receive = Receive(source, moved, number[source, rank], forward, tree.lane, due)
                receives.append((tree.lane, tree.depths[rank], receive))
    receives.sort(key=lambda entry: entry[:2])
    sends.sort(key=lambda send: send.due)
    return RankPlan(tuple(sends), tuple(receive for _, _, receive in receives))


def _chunk_of(tree: Tree, chunk: int, part: float, smallest: int) -> int:
    return min(chunk, max(smallest, int(part) // CHUNKS_A_TREE)) if tree.paced else chunk


def _next(numbers: dict[Pair, int], pair: Pair) -> int:
    number = numbers.get(pair, 0)
    if number >= MAX_TRANSFERS:
        raise ValueError(f"more than {MAX_TRANSFERS} chunks between two ranks in one collective: use larger ones")
    numbers[pair] = number + 1
    return number


def _ranges(forest: Forest, shard: int) -> Iterable[tuple[Tree, int, int]]:
    """Each tree with the elements of the shard that travel along it: in proportion, every element once."""
    by_root: dict[int, list[Tree]] = {}
    for tree in forest:
        by_root.setdefault(tree.root, []).append(tree)
    for trees in by_root.values():
        total = sum(tree.share for tree in trees)
        bounds = [0, *(round(shard * part / total) for part in accumulate(tree.share for tree in trees))]
        for tree, (begin, end) in zip(trees, pairwise(bounds), strict=True):
            if end > begin:
                yield tree, begin, end


def link_loads(network: Network, forest: Forest) -> dict[Edge, float]:
    """Shards that cross each link."""
    return loads(network, ((pair, tree.share) for tree in forest for pair in tree.edges))


def shard_bps(network: Network, forest: Forest) -> float:
    """The rate x at which every rank's shard reaches everybody: an AllGather of S bytes takes 8·S / x.

    The busiest link sets it; a pair without a route makes it 0.
    """
    if any(pair not in network.routes for tree in forest for pair in tree.edges):
        return 0.0
    carried = link_loads(network, forest)
    return min((network.capacity_bps(edge) / load for edge, load in carried.items() if load > 0), default=math.inf)


def predicted_s(network: Network, forest: Forest, size_bytes: int, chunk_bytes: int) -> float:
    """Seconds an AllGather takes: the busiest link all along, after the first chunk of the longest way has come to it.

    Chunks are passed on when they are whole, so a way of d hops costs d−1 chunk times at its own links' capacity, and
    the delay of its links where that is known.
    """
    latencies = network.latencies_s or {}
    filling = 0.0
    for tree in forest:
        if tree.share <= 0:
            continue
        part_bytes = size_bytes * tree.share
        chunk_bits = 8.0 * min(_chunk_of(tree, chunk_bytes, part_bytes, 4 * SMALLEST_CHUNK), part_bytes)
        reached = {tree.root: (0.0, 0.0)}
        for pair in tree.edges:
            hop_s = time_s(chunk_bits, network.pair_bps(pair)) + latencies.get(pair, 0.0)
            before, _ = reached[pair[0]]
            reached[pair[1]] = (before + hop_s, hop_s)
        filling = max(filling, *(total - last for total, last in reached.values()))
    return time_s(8.0 * size_bytes, shard_bps(network, forest)) + filling


def forest_to_json(forest: Forest) -> list[list[object]]:
    """Plain values for the wire between ranks."""
    return [[tree.root, [list(pair) for pair in tree.edges], tree.share, tree.lane, tree.paced] for tree in forest]


def forest_from_json(plain: Sequence[Sequence]) -> Forest:
    """What `forest_to_json` wrote."""
    return tuple(
        Tree(int(root), tuple((int(a), int(b)) for a, b in edges), float(share), int(lane), bool(paced))
        for root, edges, share, lane, paced in plain
    )
