"""`ringroad perf`: a collective at one size after the other on an emulated WAN, with the columns of nccl-tests."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.options import AsJson, KernelOption
from testbed.interruption import INTERRUPTED_EXIT_CODE, interruptible
from testbed.kernels.choosing import Kernel, needs_of
from topologies.errors import InputError, RingroadError, refused_by_system

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.perf.rows import Row
    from testbed.perf.session import Request, Result
    from testbed.progress import Reporter

log = logging.getLogger(__name__)

NOT_TRUSTWORTHY = 3
_SIZE = re.compile(r"(\d{1,18})([KMG]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def perf(
    collective: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTIVE",
            help="all_gather, all_reduce, reduce_scatter, all_to_all or broadcast.",
            show_default=False,
        ),
    ],
    wan: Annotated[str, typer.Option(metavar="WAN", help="A built-in WAN, or a WAN file.")] = "mesh4",
    minbytes: Annotated[str, typer.Option("--minbytes", "-b", metavar="SIZE", help="First size; K, M, G: 2^10 …")] = (
        "64K"
    ),
    maxbytes: Annotated[str, typer.Option("--maxbytes", "-e", metavar="SIZE", help="No size beyond this.")] = "8M",
    stepfactor: Annotated[int, typer.Option("--stepfactor", "-f", help="From size to size.")] = 2,
    iters: Annotated[int, typer.Option("--iters", "-n", help="Measured iterations per size.")] = 20,
    warmup_iters: Annotated[int, typer.Option("--warmup_iters", "-w", help="Unmeasured ones before them.")] = 1,
    check: Annotated[int, typer.Option("--check", "-c", min=0, max=1, help="Check every element: 1 or 0.")] = 1,
    datatype: Annotated[
        str, typer.Option("--datatype", "-d", help="int8, uint8, int32, int64, half, bfloat16, float or double.")
    ] = "float",
    op: Annotated[str, typer.Option("--op", "-o", help="sum, prod, min, max or avg, where something is reduced.")] = (
        "sum"
    ),
    root: Annotated[int, typer.Option("--root", "-r", help="The rank that broadcasts.")] = 0,
    schedule: Annotated[
        str, typer.Option(help="ring (as the ring backend runs it), bidirectional, multiring, trees or auto.")
    ] = "ring",
    order: Annotated[
        str, typer.Option(metavar="ORDER", help="Of the ring: listed, best, or every DC once, with commas.")
    ] = "listed",
    compare: Annotated[str | None, typer.Option(metavar="gloo", help="Run stock gloo in turn with it.")] = None,
    gate: Annotated[bool, typer.Option("--gate/--no-gate", help="Load every link first, to see that it is one.")] = (
        True
    ),
    output_file: Annotated[
        Path | None, typer.Option("--output_file", "-J", metavar="FILE", help="Write the result as JSON there.")
    ] = None,
    kernel: KernelOption = Kernel.AUTO,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only warnings.")] = False,
) -> None:
    """Measure a collective on an emulated WAN at a series of sizes, as nccl-tests does. Needs root.

    Ctrl-C ends it cleanly; rows that were measured stay, also in the JSON.

    \b
    Examples:
      ringroad perf all_gather -b 64K -e 8M -f 2 -n 20 --compare gloo
      ringroad perf all_reduce --wan six --schedule trees -b 1M -e 8M -J out.json
    """
    from testbed.kernels.relaunch import relaunch_if_needed
    from testbed.perf.session import Request, Result, sizes_between
    from testbed.perf.session import check as check_request
    from testbed.progress import reporter
    from topologies.wanfile import load_wan
    from workers.perfjob import GLOO, RING, Perf

    if quiet:
        logging.getLogger().setLevel(logging.WARNING)
    if compare not in (None, GLOO):
        raise InputError("can be compared with nothing else", place="--compare", value=compare, remedy="give gloo")
    asked = Perf(
        collective=collective.replace("-", "_"),
        sizes=sizes_between(_bytes("-b", minbytes), _bytes("-e", maxbytes), stepfactor),
        iterations=iters,
        warmup=warmup_iters,
        datatype=datatype,
        op=op,
        root=root,
        check=bool(check),
        implementations=(RING, GLOO) if compare else (RING,),
        schedule=schedule,
    )
    request = Request(load_wan(wan), asked, order, gate)
    check_request(request)
    _check_writable(output_file)
    progress = reporter(quiet)
    writable = [output_file.resolve().parent] if output_file is not None else []
    with interruptible():
        exit_code = relaunch_if_needed(kernel, needs_of(request.wan), writable=writable, reporter=progress)
    if exit_code is None:
        with interruptible():
            exit_code = _run(request, Result(request), progress, as_json, output_file)
    raise typer.Exit(exit_code)


def _bytes(place: str, text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise InputError("is no size", place=place, value=text, remedy="write it like 64K, 8M or 1G (powers of 2)")
    return int(found[1]) * _UNITS[found[2].upper()]


def _check_writable(file: Path | None) -> None:
    if file is not None and (file.is_dir() or not os.access(file.parent, os.W_OK)):
        raise InputError("cannot be written", place="-J", value=str(file), remedy="name a file in a folder that exists")


def _run(request: Request, result: Result, progress: Reporter, as_json: bool, output_file: Path | None) -> int:
    from testbed.perf.session import run_perf

    show = _printer(request, as_json)
    exit_code = 0
    try:
        with progress.shown():
            run_perf(request, progress, show, result)
    except KeyboardInterrupt:
        log.warning("interrupted: the rows so far are kept")
        exit_code = INTERRUPTED_EXIT_CODE
    finally:
        _finish(result, as_json, output_file)
    if exit_code:
        return exit_code
    wrong = sum(t.wrong or 0 for row in result.rows for t in (row.ours, row.gloo) if t is not None)
    if wrong:
        raise RingroadError(f"{wrong} elements are wrong", "the column #wrong says of which size")
    return 0 if result.verdict.trustworthy else NOT_TRUSTWORTHY


def _printer(request: Request, as_json: bool) -> Callable[[Row], None]:
    """What shows a row at once; on a terminal above the bar, which takes over its output."""
    from testbed.perf import rows

    if as_json:
        return lambda row: None
    piped = None if sys.stdout.isatty() else sys.stdout
    perf, wan = request.perf, request.wan
    print(f"# {perf.collective} on {wan.name}, {len(wan.dcs)} DCs, schedule {perf.schedule}, ring {request.order};")
    print(f"# mean of {perf.iterations} iterations after {perf.warmup}, each the time of the slowest rank")
    print(rows.header(len(perf.implementations) > 1), flush=True)
    return lambda row: print(rows.line(row), file=piped, flush=True)


def _finish(result: Result, as_json: bool, output_file: Path | None) -> None:
    """Shown first: a file that cannot be written takes nothing from the terminal."""
    _show(result, as_json)
    if output_file is not None:
        try:
            output_file.write_text(json.dumps(result.as_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise refused_by_system(error, "the result cannot be written") from error


def _show(result: Result, as_json: bool) -> None:
    from testbed.perf import rows

    if as_json:
        typer.echo(json.dumps(result.as_json(), indent=2, ensure_ascii=False))
        return
    if result.rows:
        typer.echo(rows.footer(result.rows))
    if not result.request.gated:
        typer.echo("# The links were not measured before: --gate does")
    if not result.verdict.trustworthy:
        typer.echo("# NOT TRUSTWORTHY")
        for reason in result.verdict.reasons:
            typer.echo(f"#   {reason}")
