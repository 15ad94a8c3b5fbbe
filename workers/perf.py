"""A rank that measures collectives for `ringroad perf`: one iteration of every implementation for each turn it gets.

All sizes run in one process and one set of connections. Before each iteration all ranks meet; the time of a rank is
from there until its own part is done. Filling and checking are outside of it.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import FileStore, PrefixStore, ProcessGroupGloo, ReduceOp

import workers.group
from workers import collectives, reductions
from workers.footprint import Footprint
from workers.job import Job
from workers.perfjob import ELEMENT_BYTES, GLOO, REDUCING, Perf, count_of
from workers.perfvalues import COMBINE, Values
from workers.schedules.forest import forest_from_json, plan_of
from workers.schedules.reverse import all_reduce as all_reduce_plan
from workers.schedules.reverse import reduce_scatter as reduce_scatter_plan

_OPS = {
    "sum": ReduceOp.SUM,
    "prod": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "avg": ReduceOp.AVG,
}

REST_S, RESTLESS_BYTES = 0.01, 64 * 1024
"""Before each collective of more than that. After a rest links pass a little at once: what the one before has left of
that would be in the time of the next.
"""

_POISON = 127
"""What outputs hold before a collective, so that one which writes nothing is seen."""

Run = Callable[[torch.Tensor, torch.Tensor], None]
"""A collective, from an input to an output."""


class PerfWorker:
    """The rank's groups and tensors. Joining blocks until every rank has joined."""

    def __init__(self, job: Job, rank: int, store: Path) -> None:
        assert job.perf is not None
        self._job, self._perf, self._rank, self._n = job, job.perf, rank, len(job.ranks)
        shared, timeout = FileStore(os.fspath(store), self._n), timedelta(seconds=job.timeout_s)
        dist.init_process_group("ring", store=shared, rank=rank, world_size=self._n, timeout=timeout)
        if job.start_order is not None:
            workers.group.set_order(None, job.start_order)
        everybody = list(range(self._n))
        self._meeting = dist.new_group(everybody, backend="gloo", timeout=timeout)
        self._runs: dict[str, Run] = {}
        for name in self._perf.implementations:
            if name == GLOO:
                self._runs[name] = self._of_torch(dist.new_group(everybody, backend="gloo", timeout=timeout))
            elif self._perf.forests is not None:
                data = ProcessGroupGloo(PrefixStore("planned", shared), rank, self._n, timeout)
                self._runs[name] = _Planned(job, self._perf, rank, data).run
            else:
                self._runs[name] = self._of_torch(dist.group.WORLD)
        op = self._perf.op if self._perf.collective in REDUCING else "none"
        self._values = Values(self._perf.datatype, op)
        self._count = -1

    def turn(self, request: dict[str, Any], _: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """One iteration of every implementation, the first one another in each round; its times, errors and memory."""
        number: int = request["turn"]
        size_bytes, _ = self._perf.at(number)
        self._make_room(size_bytes)
        names = list(self._perf.implementations)
        shift = number % len(names)
        took_s, wrong, memory = {}, {}, {}
        for name in names[shift:] + names[:shift]:
            self._values.fill(self._input, self._rank, number)
            self._prepare_output()
            footprint = Footprint()
            if size_bytes > RESTLESS_BYTES:
                time.sleep(REST_S)
            self._meeting.barrier().wait()
            start = time.monotonic()
            self._runs[name](self._input, self._output)
            took_s[name] = time.monotonic() - start
            self._meeting.barrier().wait()  # on one machine, who checks takes the processor from who is not done
            memory[name] = footprint.growth_bytes()
            wrong[name] = self._wrong(number) if self._perf.check else 0
        return {"collective": number, "time_s": took_s, "wrong": wrong, "memory_bytes": memory}

    def _make_room(self, size_bytes: int) -> None:
        element = ELEMENT_BYTES[self._perf.datatype]
        planned = self._perf.forests is not None
        count = count_of(self._perf.collective, size_bytes, self._n, element, planned=planned)
        if count == self._count:
            return
        self._count, n = count, self._n
        gives = {"reduce_scatter": n, "all_to_all": n}.get(self._perf.collective, 1)
        gets = {"all_gather": n, "all_to_all": n}.get(self._perf.collective, 1)
        self._input = torch.empty(count * gives, dtype=self._values.dtype)
        self._output = torch.empty(count * gets, dtype=self._values.dtype)

    def _prepare_output(self) -> None:
        """torch's all_reduce and broadcast work in place: what goes in stands in the output before."""
        in_place = self._perf.collective == "all_reduce"
        in_place |= self._perf.collective == "broadcast" and self._rank == self._perf.root
        if in_place:
            self._output.copy_(self._input)
        else:
            self._output.fill_(_POISON)

    def _of_torch(self, group: dist.ProcessGroup | None) -> Run:
        op, root = _OPS[self._perf.op], self._perf.root
        runs: dict[str, Run] = {
            "all_gather": lambda given, got: dist.all_gather_single(got, given, group=group),
            "all_reduce": lambda given, got: dist.all_reduce(got, op, group=group),
            "reduce_scatter": lambda given, got: dist.reduce_scatter_single(got, given, op, group=group),
            "all_to_all": lambda given, got: dist.all_to_all_single(got, given, group=group),
            "broadcast": lambda given, got: dist.broadcast(got, root, group=group),
        }
        return runs[self._perf.collective]

    def _wrong(self, number: int) -> int:
        """Elements of this rank's output that are not what they should be."""
        values, count, rank, n = self._values, self._count, self._rank, self._n
        if self._perf.collective == "all_reduce":
            return values.wrong(self._output, lambda begin, end: values.reduced(n, begin, end, number))
        if self._perf.collective == "reduce_scatter":
            mine = rank * count
            return values.wrong(self._output, lambda begin, end: values.reduced(n, mine + begin, mine + end, number))
        if self._perf.collective == "broadcast":
            return values.wrong(self._output, lambda begin, end: values.of(self._perf.root, begin, end, number))
        first = rank * count if self._perf.collective == "all_to_all" else 0
        return sum(
            values.wrong(
                self._output[other * count : (other + 1) * count],
                lambda begin, end, other=other: values.of(other, first + begin, first + end, number),
            )
            for other in range(n)
        )


class _Planned:
    """A collective along the forest that was planned for these links."""

    def __init__(self, job: Job, perf: Perf, rank: int, group: ProcessGroupGloo) -> None:
        assert perf.forests is not None
        self._perf, self._rank, self._group, self._n = perf, rank, group, len(job.ranks)
        self._away, self._towards = (forest_from_json(plain) for plain in perf.forests)
        self._chunk = max(1, job.chunk_bytes // ELEMENT_BYTES[perf.datatype])
        self._sequence = itertools.count(step=2)
        self._shard, self._plans = -1, None

    def run(self, given: torch.Tensor, got: torch.Tensor) -> None:
        """From input to output; what reduces overwrites its input."""
        sequence, combine, n = next(self._sequence), COMBINE[self._perf.op], self._n
        shard = got.numel() if self._perf.collective == "reduce_scatter" else got.numel() // n
        self._plan(shard)
        if self._perf.collective == "all_gather":
            collectives.all_gather(self._group, self._plans[0], given, got.view(n, shard), 0, sequence)
        elif self._perf.collective == "reduce_scatter":
            mine = reductions.reduce_scatter(self._group, self._plans[1], given.view(n, shard), 0, sequence, combine)
            got.copy_(mine)
        else:
            reductions.all_reduce(self._group, self._plans[2], got.view(n, shard), 0, sequence, combine)

    def _plan(self, shard: int) -> None:
        if shard == self._shard:
            return
        away, towards = (plan_of(forest, self._rank, shard, self._chunk) for forest in (self._away, self._towards))
        self._shard, self._plans = shard, (away, reduce_scatter_plan(towards), all_reduce_plan(towards, away))
