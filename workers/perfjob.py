"""What `ringroad perf` asks of the ranks, by the definitions of nccl-tests: sizes, counts, bandwidths. No torch.

Source of the definitions: nccl-tests, doc/PERFORMANCE.md and the count of bytes of each collective in its source. The
size of a row is the larger of what one rank gives and what it gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from topologies.errors import InputError, did_you_mean

Collective = Literal["all_gather", "all_reduce", "reduce_scatter", "all_to_all", "broadcast"]
COLLECTIVES: tuple[str, ...] = get_args(Collective)

ELEMENT_BYTES = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
    "half": 2,
    "bfloat16": 2,
    "float": 4,
    "double": 8,
}
"""Types by the names that nccl-tests gives them, with the bytes of an element."""

WHOLE = frozenset({"int8", "uint8", "int32", "int64"})

OPERATIONS = ("sum", "prod", "min", "max", "avg")
REDUCING = frozenset({"all_reduce", "reduce_scatter"})
SHARDED = frozenset({"all_gather", "reduce_scatter", "all_to_all"})
"""Their size is n shards."""

PLANNABLE = frozenset({"all_gather", "reduce_scatter", "all_reduce"})
"""What planned schedules serve; the rest runs as the `ring` backend runs it."""

ALIGNMENT_BYTES = 16
"""nccl-tests cuts shards to whole multiples of that."""

RING, GLOO = "ring", "gloo"


@dataclass(frozen=True)
class Perf:
    """One collective at several sizes (bytes, as rows count them), each `warmup` + `iterations` times.

    `implementations` take turns within each iteration. `forests` hold what a planned `schedule` runs, as
    `workers.schedules.forest.forest_to_json` writes it: that on the network, and that on the network reversed.
    """

    collective: Collective
    sizes: tuple[int, ...]
    iterations: int = 20
    warmup: int = 1
    datatype: str = "float"
    op: str = "sum"
    root: int = 0
    check: bool = True
    implementations: tuple[str, ...] = (RING,)
    schedule: str = "ring"
    forests: tuple[Any, Any] | None = None

    @property
    def rounds(self) -> int:
        """Iterations of all sizes together, warm-up included."""
        return len(self.sizes) * (self.warmup + self.iterations)

    def at(self, number: int) -> tuple[int, int]:
        """The size in bytes and the iteration (negative: warm-up) of the round of that number, from 0."""
        size, iteration = divmod(number, self.warmup + self.iterations)
        return self.sizes[size], iteration - self.warmup


def perf_from_json(plain: dict[str, Any]) -> Perf:
    """What `dataclasses.asdict` and JSON made of it."""
    forests = plain.get("forests")
    given = plain | {"sizes": tuple(plain["sizes"]), "implementations": tuple(plain["implementations"])}
    return Perf(**given | {"forests": None if forests is None else tuple(forests)})


def count_of(collective: str, size_bytes: int, ranks: int, element_bytes: int, *, planned: bool = False) -> int:
    """The column `count` of a size: elements of one shard, or of the buffer where all of it is one. May be 0.

    A planned all_reduce works on n equal shards, so its count is a multiple of n.
    """
    elements = size_bytes // element_bytes
    if collective in SHARDED:
        return elements // ranks // (ALIGNMENT_BYTES // element_bytes) * (ALIGNMENT_BYTES // element_bytes)
    return elements // ranks * ranks if planned else elements


def row_bytes(collective: str, count: int, ranks: int, element_bytes: int) -> int:
    """The column `size` of a count."""
    return count * element_bytes * (ranks if collective in SHARDED else 1)


def algbw(size_bytes: int, time_s: float) -> float:
    """Algorithm bandwidth in bytes per second: size ÷ time."""
    return size_bytes / time_s


def busbw(collective: str, size_bytes: int, time_s: float, ranks: int) -> float:
    """Bus bandwidth in bytes per second: what each rank's port carries if the schedule moves no byte in vain."""
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0}
    return algbw(size_bytes, time_s) * factors.get(collective, (ranks - 1) / ranks)


def limit_bytes(collective: str, count: int, element_bytes: int) -> int:
    """What `workers.limits.limit_s` calls the size: one shard, or the buffer where all of it is one."""
    return count * element_bytes


def record(perf: Perf, by_rank: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record of a round out of what every rank reports: the maximum of the times, the sum of the errors."""
    first = by_rank[0]
    size_bytes, iteration = perf.at(first["collective"])
    return {
        "event": "perf",
        "size_bytes": size_bytes,
        "iteration": iteration,
        "time_s": {name: max(r["time_s"][name] for r in by_rank) for name in perf.implementations},
        "memory_bytes": {name: max(r["memory_bytes"][name] for r in by_rank) for name in perf.implementations},
        "wrong": {name: sum(r["wrong"][name] for r in by_rank) for name in perf.implementations}
        if perf.check
        else None,
    }


def check(perf: Perf, ranks: int) -> None:
    """InputError, naming the option of `ringroad perf`, unless all of it can be run by so many ranks."""
    element = ELEMENT_BYTES.get(perf.datatype)
    if ranks < 2:
        raise InputError("a collective needs two DCs", place="--wan", value=ranks, remedy="choose another WAN")
    _known("collective", perf.collective, COLLECTIVES)
    _known("-d", perf.datatype, tuple(ELEMENT_BYTES))
    _known("-o", perf.op, OPERATIONS)
    assert element is not None
    planned = perf.schedule != RING
    least = min(perf.sizes)
    if count_of(perf.collective, least, ranks, element, planned=planned) < 1:
        unit = ALIGNMENT_BYTES if perf.collective in SHARDED else element
        remedy = f"begin with at least {unit * (ranks if perf.collective in SHARDED or planned else 1)}"
        raise InputError(f"too few bytes for {ranks} ranks", place="-b", value=least, remedy=remedy)
    if not 0 <= perf.root < ranks:
        raise InputError("no such rank", place="-r", value=perf.root, remedy=f"give one from 0 to {ranks - 1}")
    if perf.iterations < 1:
        raise InputError("out of range", place="-n", value=perf.iterations, remedy="give at least 1")
    if perf.warmup < 0:
        raise InputError("out of range", place="-w", value=perf.warmup, remedy="give 0 or more")
    if planned and perf.collective not in PLANNABLE:
        remedy = f"leave it out, or choose one of {', '.join(sorted(PLANNABLE))}"
        raise InputError(
            f"{perf.collective} has no planned schedule", place="--schedule", value=perf.schedule, remedy=remedy
        )
    if perf.collective in REDUCING and perf.op == "avg" and perf.datatype in WHOLE:
        raise InputError("whole numbers have no average", place="-o", value=perf.op, remedy="use sum, or -d float")
    if planned and perf.collective in REDUCING and perf.op == "avg":
        raise InputError("planned schedules form no averages", place="-o", value=perf.op, remedy="use sum")


def _known(place: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError("not one of the choices", place=place, value=value, remedy=did_you_mean(value, list(known)))
