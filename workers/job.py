"""What a run asks of the workers, as frozen values, and their JSON form between the runner and the launcher.

Imports no torch: the runner builds jobs without paying for it. Knows nothing of how bytes move.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from topologies.errors import InputError
from workers.perfjob import Perf, perf_from_json
from workers.schedules import PLANNED

ELEMENT_BYTES = 4
"""Shards are made of 32-bit elements, so that every element can say which shard and which collective it belongs to."""

Implementation = Literal["ring", "gloo"]
Source = Literal["probe", "passive", "feed", "oracle"]


def _check(good: bool, field: str, value: object, remedy: str) -> None:
    if not good:
        raise InputError("out of range", place=f"job: {field}", value=value, remedy=remedy)


@dataclass(frozen=True)
class Rank:
    """Where one rank works. `netns_pid` is a process in its DC's network namespace; None: the launcher's own."""

    dc: str
    netns_pid: int | None = None


@dataclass(frozen=True)
class BackToBack:
    """The next collective starts as soon as every rank has verified the one before."""

    kind: Literal["back_to_back"] = "back_to_back"


@dataclass(frozen=True)
class Every:
    """Collective i starts at start + i · `every_s`, or at once if that moment has passed."""

    every_s: float
    kind: Literal["every"] = "every"

    def __post_init__(self) -> None:
        _check(math.isfinite(self.every_s) and self.every_s > 0, "every_s", self.every_s, "give seconds above 0")


Pacing = BackToBack | Every


@dataclass(frozen=True)
class Probe:
    """Size of one probe: `lead` chunks empty the burst allowance of a link, the arrivals after them are timed."""

    chunk_bytes: int = 32 * 1024
    lead: int = 2
    timed: int = 6

    def __post_init__(self) -> None:
        _check(0 < self.chunk_bytes <= 2**24, "probe.chunk_bytes", self.chunk_bytes, "give between 1 B and 16 MiB")
        _check(1 <= self.lead <= 100, "probe.lead", self.lead, "give between 1 and 100 chunks")
        _check(1 <= self.timed <= 100, "probe.timed", self.timed, "give between 1 and 100 chunks")


@dataclass(frozen=True)
class Agent:
    """The ring agent: before every `every`-th collective (0: never) it measures, decides and all ranks agree.

    `policy` is a name of `workers.policies` or `module:function`. `margin` is the predicted gain (0.1 = 10 %) that a
    change must exceed, and what it saves until the next decision must exceed `change_cost_s`. What `passive` has seen
    of a pair loses half its weight every `half_life_s`.
    """

    every: int = 0
    source: Source = "probe"
    policy: str = "bottleneck"
    margin: float = 0.1
    probe: Probe = Probe()
    change_cost_s: float = 0.0
    half_life_s: float = 30.0

    def __post_init__(self) -> None:
        _check(self.every >= 0, "agent.every", self.every, "give a number of collectives, or 0 for never")
        _check(self.source in get_args(Source), "agent.source", self.source, "probe, passive, feed or oracle")
        _check(math.isfinite(self.margin) and self.margin >= 0, "agent.margin", self.margin, "give a gain such as 0.1")
        _check(self.change_cost_s >= 0, "agent.change_cost_s", self.change_cost_s, "give seconds, or 0")
        _check(self.half_life_s > 0, "agent.half_life_s", self.half_life_s, "give seconds above 0")


@dataclass(frozen=True)
class Job:
    """AllGathers of `size_bytes` per rank over `ranks`, in the order of the DCs that is listed.

    `collectives` are measured after `warmup` unmeasured ones; with `duration_s`, none starts later than that after the
    start of the run. `compute_s` is what every rank waits before each collective, and before the time that `pacing`
    sets for it: the accelerator's work, which is not done here. `implementations` take turns (collective i uses the
    i-th, cyclically). `bandwidth_socket` is where the runner answers for the sources `feed` and `oracle`. After
    `timeout_s` without progress gloo gives up. `schedule` is a name of `workers.schedules`, `module:function`, or
    `auto`: the agent takes the one that should end first. `start_order` is a ring order (ranks) to begin with that
    somebody has measured before; it goes before `initial_order`. `records_socket` is where the backend `ring`
    tells what it did (`workers.backend.journal`). With `perf` the ranks run its rounds instead of AllGathers, as many
    as `collectives` says. `elastic`: a rank that dies does not end the job, the others go on; not with `perf`.
    """

    ranks: tuple[Rank, ...]
    size_bytes: int
    log_folder: str
    collectives: int = 1
    warmup: int = 1
    interface: str = "eth0"
    chunk_bytes: int = 512 * 1024
    pacing: Pacing = BackToBack()
    compute_s: float = 0.0
    duration_s: float | None = None
    agent: Agent = Agent()
    initial_order: Literal["listed", "measured_once"] = "listed"
    start_order: tuple[int, ...] | None = None
    implementations: tuple[Implementation, ...] = ("ring",)
    schedule: str = "ring"
    bandwidth_socket: str | None = None
    records_socket: str | None = None
    seed: int = 0
    timeout_s: float = 120.0
    verify: bool = True
    perf: Perf | None = None
    elastic: bool = False

    def __post_init__(self) -> None:
        _check(len(self.ranks) >= 2, "ranks", len(self.ranks), "a collective needs at least two ranks")
        for name in ("size_bytes", "chunk_bytes"):
            value = getattr(self, name)
            good = value > 0 and value % ELEMENT_BYTES == 0
            _check(good, name, value, f"give a multiple of {ELEMENT_BYTES} bytes, such as 8MiB")
        _check(self.collectives > 0, "collectives", self.collectives, "give at least 1")
        _check(self.warmup >= 0, "warmup", self.warmup, "give 0 or more")
        _check(self.timeout_s > 0, "timeout_s", self.timeout_s, "give seconds above 0")
        _check(0 <= self.compute_s <= 86400, "compute_s", self.compute_s, "give seconds, or 0")
        _check(self.duration_s is None or self.duration_s > 0, "duration_s", self.duration_s, "give seconds above 0")
        known = bool(self.implementations) and set(self.implementations) <= {"ring", "gloo"}
        _check(known, "implementations", self.implementations, "ring, gloo, or both in turn")
        ranks = list(range(len(self.ranks)))
        good = self.start_order is None or sorted(self.start_order) == ranks
        _check(good, "start_order", self.start_order, "name every rank once")
        measures = self.agent.every > 0 or self.measures_first
        plans = "planned for links as they are measured: give agent.every, or initial_order measured_once"
        _check(self.schedule not in PLANNED or measures, "schedule", self.schedule, plans)
        asks = measures and self.agent.source in ("feed", "oracle")
        _check(not asks or self.bandwidth_socket is not None, "bandwidth_socket", None, "feed and oracle need one")
        _check(Path(self.log_folder).is_absolute(), "log_folder", self.log_folder, "give an absolute path")

    @property
    def dcs(self) -> tuple[str, ...]:
        """Names of the DCs by rank."""
        return tuple(rank.dc for rank in self.ranks)

    @property
    def measures_first(self) -> bool:
        """Whether the ring agent works before the first collective."""
        return self.initial_order == "measured_once" and self.start_order is None

    def log_path(self, rank: int) -> Path:
        """Where the rank of that number logs."""
        return Path(self.log_folder) / f"rank{rank}.log"


def rank_name(job: Job, rank: int) -> str:
    """`rank 2 (tokyo)`: how messages for people name a rank."""
    return f"rank {rank} ({job.ranks[rank].dc})"


def job_to_json(job: Job) -> dict[str, Any]:
    """Plain JSON values; `job_from_json` gives an equal job."""
    return asdict(job)


def job_from_json(plain: dict[str, Any]) -> Job:
    """The job that `job_to_json` wrote. InputError if a value is out of range or a field is unknown."""
    unknown = set(plain) - {field.name for field in fields(Job)}
    if unknown:
        raise InputError("a job has no such field", value=sorted(unknown))
    values = dict(plain)
    values["ranks"] = tuple(Rank(**rank) for rank in plain["ranks"])
    if plain.get("start_order") is not None:
        values["start_order"] = tuple(plain["start_order"])
    if "implementations" in plain:
        values["implementations"] = tuple(plain["implementations"])
    if "pacing" in plain:
        values["pacing"] = Every(**plain["pacing"]) if plain["pacing"]["kind"] == "every" else BackToBack()
    if plain.get("perf") is not None:
        values["perf"] = perf_from_json(plain["perf"])
    if "agent" in plain:
        agent = dict(plain["agent"])
        values["agent"] = Agent(**{**agent, "probe": Probe(**agent.get("probe", {}))})
    return Job(**values)
