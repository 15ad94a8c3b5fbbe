"""Parts of benchmarks on the exact kernel, where computing takes no time: what the network and the code allow.

On a machine with few cores switches, workers and probes take turns, and figures of a few milliseconds are partly those
of the machine. The same part, carried out in virtual time, shows what is left without it.

    python -m benchmarks.virtual FILE MODULE PART

writes the figures of a part to a file; whoever wants them from another kernel boots it with this as its command.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Part, Reach
from testbed.kernels.choosing import Choice, Kernel
from testbed.kernels.relaunch import carry_out
from topologies import RingroadError


def in_virtual_time(part: Part) -> Part:
    """The same part, a function of a module, on the exact kernel. RingroadError if that is not built or it fails."""

    @wraps(part)
    def carried_out() -> Iterator[Figure]:
        with tempfile.TemporaryDirectory(prefix="ringroad-bench-") as folder:
            file = Path(folder) / "figures.json"
            command = [sys.executable, "-m", "benchmarks.virtual", str(file), part.__module__, part.__name__]
            status = carry_out(Choice(Kernel.EXACT, "asked for"), command, writable=[Path(folder)])
            if status != 0 or not file.exists():
                raise RingroadError(f"{part.__name__} on the exact kernel ended with status {status}")
            figures = [figure_of(plain) for plain in json.loads(file.read_text())]
        for each in figures:
            yield replace(each, name=f"exact: {each.name}")

    carried_out.__doc__ = f"In virtual time: {part.__doc__}"
    return carried_out


def figure_of(plain: dict[str, Any]) -> Figure:
    """A figure from what `asdict` has made of it."""
    return Figure(**plain | {"reach": Reach(**plain["reach"]), "values": tuple(plain["values"])})


def main(file: str, module: str, part: str) -> None:
    """Carry out a part here, and write its figures."""
    Path(file).write_text(json.dumps([asdict(each) for each in getattr(import_module(module), part)()]))


if __name__ == "__main__":
    main(*sys.argv[1:])
