"""`ringroad exec`: a person's own program in the DCs of an emulated WAN that moves."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from testbed.commands.options import AsJson, KernelOption
from testbed.interruption import INTERRUPTED_EXIT_CODE, interruptible
from testbed.kernels.choosing import Kernel
from topologies.errors import InputError, RingroadError, did_you_mean

if TYPE_CHECKING:
    from testbed.execution.arm import Program
    from testbed.execution.beginning import From
    from testbed.experiment import Experiment
    from testbed.progress import Reporter

log = logging.getLogger(__name__)

DESCRIBED = ("wan", "trace", "fault", "trace_seed", "t_wan", "reorder_every", "policy", "source", "controller_policy")
"""Options that say what an experiment file says as well."""

ARMS = ("static", "wan", "ccl", "joint")


def execute(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="What to run in every DC.", show_default=False)
    ],
    arm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARM[,ARM]",
            help="static, wan, ccl, joint, or all: the program runs once per arm.  [default: joint]",
        ),
    ] = None,
    workers_per_dc: Annotated[int, typer.Option(metavar="K", min=1, max=64, help="Processes in each DC.")] = 1,
    wan: Annotated[str, typer.Option(help="A built-in WAN, or a file.")] = "mesh4",
    trace: Annotated[
        str | None,
        typer.Option(help="A trace as in an experiment file, '{kind: …}', or a trace file."),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="'{at: …}'", help="A fault as in an experiment file; repeatable."),
    ] = None,
    trace_seed: Annotated[int | None, typer.Option(min=0, help="Of the trace, and all chance.")] = None,
    blocks: Annotated[
        int | None, typer.Option(min=1, help="Run every arm under this many seeds.  [default: 1]")
    ] = None,
    t_wan: Annotated[str | None, typer.Option(metavar="TIME", help="Period of the WAN controller.")] = None,
    controller_policy: Annotated[str | None, typer.Option(help="Path policy of the arms wan and joint.")] = None,
    reorder_every: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Bulk collectives between turns of the ring agent.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Ring policy of the arms ccl and joint.")] = None,
    source: Annotated[str | None, typer.Option(help="What the agent asks: probe, passive, feed, oracle.")] = None,
    experiment: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take WAN, trace, faults and loops from an experiment file.")
    ] = None,
    trace_from: Annotated[
        str, typer.Option(metavar="joined|start", help="Second 0 of the trace: all ranks have joined, or have started.")
    ] = "joined",
    stock_gloo: Annotated[
        bool, typer.Option("--stock-gloo", help="Leave gloo alone; unless given, gloo means the ring backend.")
    ] = False,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="The longest that the program may take.")] = "1h",
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, max=86400, help="For the others, when a rank fails.")
    ] = 5.0,
    step: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Finds step times in what rank 0 prints; group 1 is seconds.")
    ] = None,
    no_gate: Annotated[bool, typer.Option("--no-gate", help="Skip the check that links carry their rates.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run folder; new, or empty.  [default: a new one in runs/]")
    ] = None,
    kernel: KernelOption = Kernel.AUTO,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only warnings.")] = False,
) -> None:
    """Run a program in every DC of an emulated WAN, as torchrun would, while the WAN moves. Needs root.

    Its exit code is that of the worst rank. Signals are passed on. `python` is the one that has torch and the backend.

    \b
    Examples:
      ringroad exec --wan six --arm joint -- python train.py
      ringroad exec --arm all --trace '{kind: redraw, every: 10s, low: 15mbit, high: 60mbit}' -- python train.py
    """
    from testbed.execution.arm import Program
    from testbed.execution.asked import from_file, from_options, timeout_s
    from testbed.execution.steps import STEP, step_pattern
    from testbed.kernels.relaunch import DEFAULT_MEMORY_BYTES
    from testbed.progress import Lines, Reporter
    from testbed.runelsewhere import run_elsewhere

    if quiet:
        logging.getLogger().setLevel(logging.WARNING)
    step_pattern(step or STEP)
    arms = arms_named(arm)
    longest_s = timeout_s(timeout)
    if experiment is not None:
        _refuse_beside_a_file(context)
        asked = from_file(experiment, arms, blocks, longest_s)
    else:
        asked = from_options(
            wan,
            arms or ["joint"],
            longest_s,
            trace=trace,
            faults=fault or [],
            seed=trace_seed,
            blocks=blocks or 1,
            t_wan=t_wan,
            reorder_every=reorder_every,
            **{"agent.policy": policy, "agent.source": source, "controller.policy": controller_policy},
        )
    gloo = "gloo" if stock_gloo else "ring"
    program = Program(tuple(command), workers_per_dc, gloo, grace, _trace_from(trace_from))
    progress = Reporter() if quiet else Lines()
    with interruptible():
        exit_code = run_elsewhere(asked, kernel, progress, out, DEFAULT_MEMORY_BYTES)
        if exit_code is None:
            exit_code = _run(asked, program, progress, out, step or STEP, not no_gate, as_json)
    raise typer.Exit(exit_code)


def _trace_from(given: str) -> From:
    if given not in ("joined", "start"):
        raise InputError("not one of the choices", place="--trace-from", value=given, remedy="joined, or start")
    return cast("From", given)


def arms_named(given: list[str] | None) -> list[str] | None:
    """Every arm that is named, once, in the order given; None if none is. InputError for what is no arm."""
    if not given:
        return None
    names = [name.strip() for each in given for name in each.split(",")]
    for name in names:
        if name not in (*ARMS, "all"):
            remedy = did_you_mean(name, [*ARMS, "all"])
            raise InputError("not one of the choices", place="--arm", value=name, remedy=remedy)
    return list(dict.fromkeys(arm for name in names for arm in (ARMS if name == "all" else (name,))))


def _refuse_beside_a_file(context: typer.Context) -> None:
    for name in DESCRIBED:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            remedy = "change it in a copy of the file, or leave --experiment out"
            raise InputError("the experiment file says that", place=option, remedy=remedy)


def _run(
    asked: Experiment, program: Program, progress: Reporter, out: Path | None, step: str, gate: bool, as_json: bool
) -> int:
    from testbed.execution.run import run_command

    shown = sys.stderr if as_json else sys.stdout
    try:
        run_command(asked, program, progress, step=step, out=out, with_gate=gate, shown=shown)
    except KeyboardInterrupt:
        log.warning("interrupted: what there is is kept")
        _report_what_there_is(progress.folder, as_json)
        return INTERRUPTED_EXIT_CODE
    except RingroadError:
        _report_what_there_is(progress.folder, as_json)
        raise
    if progress.folder is not None:
        show(progress.folder, as_json)
    return 0


def _report_what_there_is(folder: Path | None, as_json: bool) -> None:
    """The summary of a run that has failed: one that fails as well must not hide why the run did."""
    from testbed.runfolder import ARMS

    try:
        if folder is not None and (folder / ARMS).exists():
            show(folder, as_json)
    except RingroadError as error:
        log.warning("no summary: %s", error.message)


def show(folder: Path, as_json: bool) -> None:
    """Write the summary; the table on stdout, or with `as_json` the JSON on stdout and the table on stderr."""
    from rich.console import Console

    from testbed.execution.summary import make_summary, plain
    from testbed.execution.table import print_summary
    from testbed.runfolder import encode

    summary = make_summary(folder)
    print_summary(summary, Console(stderr=as_json))
    if as_json:
        typer.echo(encode(plain(summary), indent=2))
    log.info("outputs and records of all ranks are in %s", folder)
