"""A row of `ringroad perf` and how it is printed: the columns of nccl-tests, the limit, and stock gloo. Pure.

Times are those of the slowest rank, the mean of all iterations; bandwidths are GB/s = 1e9 bytes per second.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workers import perfjob
from workers.perfjob import GLOO, REDUCING, RING, Perf


@dataclass(frozen=True)
class Times:
    """Of one implementation at one size: seconds by iteration, the slowest rank's; wrong elements, None: unchecked.

    `memory_bytes` is what a rank's process grew by at most in any of them.
    """

    times_s: tuple[float, ...]
    wrong: int | None
    memory_bytes: int

    @property
    def mean_s(self) -> float:
        """What nccl-tests shows as time."""
        return statistics.fmean(self.times_s)

    @property
    def median_s(self) -> float:
        """What one slow iteration does not change."""
        return statistics.median(self.times_s)


@dataclass(frozen=True)
class Row:
    """One size. `limit_s`: no schedule can be faster on these links; `gloo` is None if it was not asked for."""

    collective: str
    size_bytes: int
    count: int
    datatype: str
    op: str
    root: int
    ranks: int
    limit_s: float
    ours: Times
    gloo: Times | None

    @property
    def of_limit(self) -> float:
        """The limit ÷ the time taken: 1 if nothing could be faster."""
        return self.limit_s / self.ours.mean_s

    @property
    def against_gloo(self) -> float | None:
        """Our median time ÷ stock gloo's."""
        return None if self.gloo is None else self.ours.median_s / self.gloo.median_s

    def busbw(self, times: Times) -> float:
        """Bytes per second, at the mean time."""
        return perfjob.busbw(self.collective, self.size_bytes, times.mean_s, self.ranks)

    def as_json(self) -> dict[str, Any]:
        """All figures and every iteration."""
        return {
            "size_bytes": self.size_bytes,
            "count": self.count,
            "type": self.datatype,
            "redop": self.op,
            "root": self.root,
            "out_of_place": self._times_json(self.ours),
            "limit_s": self.limit_s,
            "limit_fraction": self.of_limit,
            "gloo": None if self.gloo is None else self._times_json(self.gloo),
            "against_gloo": self.against_gloo,
        }

    def _times_json(self, times: Times) -> dict[str, Any]:
        return {
            "time_s": times.mean_s,
            "median_s": times.median_s,
            "least_s": min(times.times_s),
            "most_s": max(times.times_s),
            "algbw_gb_per_s": perfjob.algbw(self.size_bytes, times.mean_s) / 1e9,
            "busbw_gb_per_s": self.busbw(times) / 1e9,
            "limit_fraction": self.limit_s / times.mean_s,
            "wrong": times.wrong,
            "memory_bytes": times.memory_bytes,
            "times_s": list(times.times_s),
        }


def row_of(perf: Perf, ranks: int, count: int, limit_s: float, records: Sequence[dict[str, Any]]) -> Row:
    """The row of one size out of the records of its iterations, warm-up left out but for its errors."""
    element = perfjob.ELEMENT_BYTES[perf.datatype]

    def times(name: str) -> Times:
        counted = tuple(record["time_s"][name] for record in records if record["iteration"] >= 0)
        wrong = sum(record["wrong"][name] for record in records) if perf.check else None
        return Times(counted, wrong, max(record["memory_bytes"][name] for record in records))

    return Row(
        collective=perf.collective,
        size_bytes=perfjob.row_bytes(perf.collective, count, ranks, element),
        count=count,
        datatype=perf.datatype,
        op=perf.op if perf.collective in REDUCING else "none",
        root=perf.root if perf.collective == "broadcast" else -1,
        ranks=ranks,
        limit_s=limit_s,
        ours=times(RING),
        gloo=times(GLOO) if GLOO in perf.implementations else None,
    )


_OWN = f"{'time':>10} {'algbw':>8} {'busbw':>8} {'#wrong':>6}"
_LIMIT = f"{'limit':>10} {'reached':>7}"
_GLOO = f"{'time':>10} {'busbw':>8} {'#wrong':>6} {'ratio':>6}"


def header(compare: bool) -> str:
    """Three lines of comment: groups of columns, their names, their units."""
    groups = f"#{'':51}{'out-of-place':^36}"
    names = f"#{'size':>12} {'count':>12} {'type':>9} {'redop':>6} {'root':>6}  {_OWN} {_LIMIT}"
    units = f"#{'(B)':>12} {'(elements)':>12} {'':>9} {'':>6} {'':>6}  {'(us)':>10} {'(GB/s)':>8} {'(GB/s)':>8} {'':>6}"
    units += f" {'(us)':>10} {'':>7}"
    if compare:
        groups += f"{'':19}{'stock gloo':^33}"
        names += f" {_GLOO}"
        units += f" {'(us)':>10} {'(GB/s)':>8} {'':>6} {'':>6}"
    return "\n".join(line.rstrip() for line in (groups, names, units))


def line(row: Row) -> str:
    """The row under those columns."""
    text = f" {row.size_bytes:>12} {row.count:>12} {row.datatype:>9} {row.op:>6} {row.root:>6}"
    text += f"  {_us(row.ours)} {_gb(perfjob.algbw(row.size_bytes, row.ours.mean_s))} {_gb(row.busbw(row.ours))}"
    text += f" {_wrong(row.ours)} {row.limit_s * 1e6:>10.1f} {row.of_limit:>7.1%}"
    if row.gloo is not None:
        text += f" {_us(row.gloo)} {_gb(row.busbw(row.gloo))} {_wrong(row.gloo)} {row.against_gloo:>6.3f}"
    return text


def footer(rows: Sequence[Row]) -> str:
    """What nccl-tests says at the end: whether all elements were right, and the average bus bandwidth."""
    checked = [t.wrong for row in rows for t in (row.ours, row.gloo) if t is not None and t.wrong is not None]
    wrong = f"{sum(checked)} {'FAILED' if any(checked) else 'OK'}" if checked else "not checked"
    average = statistics.fmean(row.busbw(row.ours) for row in rows) if rows else 0.0
    return f"# Wrong elements       : {wrong}\n# Avg bus bandwidth    : {average / 1e9:.4g} GB/s"


def _us(times: Times) -> str:
    return f"{times.mean_s * 1e6:>10.1f}"


def _gb(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:>8.4f}"


def _wrong(times: Times) -> str:
    return f"{'N/A' if times.wrong is None else times.wrong:>6}"
