"""Trace files: a CSV with the columns time, link, rate, read and checked whole against a WAN.

    time,link,rate
    0,tokyo-oregon,100mbit
    12.5,tokyo->oregon,30mbit

Time in seconds or with a unit; rate in bit/s or with a unit; `tokyo->oregon` is one direction alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from testbed.dynamics.traces import Row, edges_matching, no_such_link
from topologies import Edge, Wan
from topologies.errors import Fault, InputError, Place
from topologies.fields import Duration, Rate
from topologies.yamlfile import Loaded, read_text

COLUMNS = ("time", "link", "rate")
MAX_FAULTS = 20
"""More than these are the same mistake again and again."""

_RATE: TypeAdapter[float] = TypeAdapter(Rate)
_TIME: TypeAdapter[float] = TypeAdapter(Duration)


def read_rows(path: Path, wan: Wan) -> tuple[Row, ...]:
    """The rows of a trace file, by time. InputError lists what is wrong, with line, value and remedy."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), skipinitialspace=True)
    try:
        table = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    except csv.Error as error:
        raise InputError(f"this is not CSV: {error}", file=f"{path}:{reader.line_num}") from error
    if not table or tuple(table[0][1]) != COLUMNS:
        found = ",".join(table[0][1]) if table else None
        raise InputError("the first line names the columns", file=f"{path}:1", value=found, remedy="time,link,rate")
    if len(table) == 1:
        raise InputError("the file has no rows", file=str(path), remedy="add one, as 0,tokyo-oregon,100mbit")
    lines: dict[Place, int] = {("line", line): line for line, _ in table[1:]}
    checked = [_row(cells, wan, ("line", line)) for line, cells in table[1:]]
    faults = [fault for row in checked if not isinstance(row, Row) for fault in row]
    rows = [row for row in checked if isinstance(row, Row)]
    faults = faults or list(_said_twice(rows, list(lines)))
    if faults:
        raise Loaded(str(path), {}, lines).error(faults[:MAX_FAULTS])
    return tuple(sorted(rows, key=lambda row: row.at_s))


def _row(cells: list[str], wan: Wan, place: Place) -> Row | list[Fault]:
    if len(cells) != len(COLUMNS):
        return [
            Fault(place, f"a row has {len(COLUMNS)} values", ",".join(cells), "write it as 12.5,tokyo-oregon,30mbit")
        ]
    faults: list[Fault] = []
    edges = edges_matching(cells[1], wan)
    if not edges:
        faults.append(no_such_link(cells[1], wan, (*place, "link")))
    at_s = _quantity(_TIME, cells[0], (*place, "time"), faults)
    rate_bps = _quantity(_RATE, cells[2], (*place, "rate"), faults)
    return faults or Row(at_s, edges, rate_bps)


def _quantity(kind: TypeAdapter[float], cell: str, place: Place, faults: list[Fault]) -> float:
    try:
        plain = float(cell)
    except ValueError:
        plain = None
    try:
        return kind.validate_python(cell if plain is None else plain)
    except ValidationError as error:
        message, _, remedy = error.errors()[0]["msg"].removeprefix("Value error, ").partition("; ")
        faults.append(Fault(place, message, cell, remedy))
        return 0.0


def _said_twice(rows: list[Row], places: list[Place]) -> Iterator[Fault]:
    seen: set[tuple[float, Edge]] = set()
    for row, place in zip(rows, places, strict=True):
        at = {(row.at_s, edge) for edge in row.edges}
        if at & seen:
            yield Fault(place, "this link has two rates at the same time", row.at_s, "delete one of the rows")
        seen |= at
