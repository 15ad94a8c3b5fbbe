"""`ringroad report`: the table and the plots of a run again, from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.options import AsJson

if TYPE_CHECKING:
    from testbed.report.summary import Summary


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make summary.json, summary.txt and the plots of a run again, finished or not. Exit code 3: not trustworthy.

    \b
    Example:
      ringroad report runs/quickstart-20260102T030405Z-k3f9
    """
    from testbed.execution.summary import is_exec
    from testbed.report.make import make_report

    if is_exec(folder):
        from testbed.commands.exec import show as show_program

        show_program(folder, as_json)
        raise typer.Exit
    summary = make_report(folder)
    show(summary, as_json)
    raise typer.Exit(summary.exit_code)


def show(summary: Summary, as_json: bool) -> None:
    """The table on stdout; with `as_json` the JSON on stdout and the table on stderr."""
    from rich.console import Console

    from testbed.report.table import print_summary
    from testbed.runfolder import encode

    print_summary(summary, Console(stderr=as_json))
    if as_json:
        typer.echo(encode(summary, indent=2))
