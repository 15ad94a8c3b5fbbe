"""`ringroad run`: an experiment from its file to the table that says who won."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.options import AsJson, KernelOption
from testbed.interruption import INTERRUPTED_EXIT_CODE, interruptible
from testbed.kernels.choosing import Kernel
from topologies.errors import RingroadError

if TYPE_CHECKING:
    from testbed.experiment import Experiment
    from testbed.progress import Reporter
    from testbed.report.summary import Summary

log = logging.getLogger(__name__)


def run(
    file: Annotated[Path, typer.Argument(metavar="EXPERIMENT.yaml", help="The experiment.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run folder; new, or empty.  [default: a new one in runs/]")
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="Run this many blocks instead of the file's.")] = None,
    arms: Annotated[str | None, typer.Option(metavar="ARM,ARM", help="Run only these of the file's arms.")] = None,
    elastic: Annotated[
        bool, typer.Option("--elastic", help="A worker that dies does not end the run: the others go on.")
    ] = False,
    kernel: KernelOption = Kernel.AUTO,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only warnings.")] = False,
) -> None:
    """Run an experiment: every arm in every block, then the table and the plots. Needs root.

    Ctrl-C ends it cleanly and keeps what was measured.

    \b
    Examples:
      ringroad run experiments/quickstart.yaml
      ringroad run experiments/quickstart.yaml --blocks 2 --arms static,joint --json >summary.json
      ringroad run experiments/short.yaml --kernel uml
    """
    from testbed.experiment import load_experiment
    from testbed.progress import reporter

    if quiet:
        logging.getLogger().setLevel(logging.WARNING)
    experiment = load_experiment(file, elastic=elastic).overridden(
        blocks, arms.split(",") if arms is not None else None
    )
    progress = reporter(quiet)
    with interruptible():
        exit_code = _run(experiment, out, kernel, progress, as_json)
    raise typer.Exit(exit_code)


def _run(experiment: Experiment, out: Path | None, kernel: Kernel, progress: Reporter, as_json: bool) -> int:
    from testbed.kernels.inside import is_inside
    from testbed.runelsewhere import run_elsewhere
    from testbed.runner import run_experiment

    try:
        with progress.shown():
            exit_code = run_elsewhere(experiment, kernel, progress, out)
            if exit_code is None:
                run_experiment(experiment, progress, out)
            elif exit_code == INTERRUPTED_EXIT_CODE:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        log.warning("interrupted: what was measured is kept")
        _report_what_there_is(progress.folder, as_json)
        return INTERRUPTED_EXIT_CODE
    except RingroadError:
        _report_what_there_is(progress.folder, as_json)
        raise
    if is_inside():
        return 0  # Who booted this kernel reports: there it is faster, and on a terminal.
    if exit_code:  # Why, has been said inside.
        _report_what_there_is(progress.folder, as_json)
        return exit_code
    summary = _report(progress.folder, as_json)
    return summary.exit_code if summary is not None else 0


def _report_what_there_is(folder: Path | None, as_json: bool) -> None:
    """The report of a run that has failed: a report that fails as well must not hide why the run did."""
    try:
        _report(folder, as_json)
    except RingroadError as error:
        log.warning("no report: %s", error.message)


def _report(folder: Path | None, as_json: bool) -> Summary | None:
    """Write and show the report, if there is anything to report on."""
    from testbed.commands.report import show
    from testbed.kernels.inside import is_inside
    from testbed.report.make import make_report
    from testbed.runfolder import MANIFEST

    if folder is None or not (folder / MANIFEST).exists() or is_inside():
        return None
    summary = make_report(folder)
    show(summary, as_json)
    log.info("table, figures and plots are in %s", folder)
    return summary
