"""`ringroad`: which verbs there are, and how errors become messages and exit codes.

Results go to stdout, everything else to stderr. Imports nothing heavy: `ringroad --help` has to answer at once.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from testbed.commands import (
    clean,
    controller,
    dashboard,
    doctor,
    exec,
    live,
    perf,
    report,
    run,
    topologies,
    validate,
    view,
)
from testbed.interruption import INTERRUPTED_EXIT_CODE
from topologies.errors import RingroadError, refused_by_system

if TYPE_CHECKING:
    from click import HelpFormatter

EXIT_CODES = """\b
Exit codes: 0 done, 1 something is wrong with the machine or the request, 2 a file or argument is wrong,
3 the run is not to be trusted, 4 a process that the run depends on died, 130 interrupted.
"""


WHOLE = 200
"""Characters: no verb's first sentence is longer, so none is cut."""

GROUPS: dict[str, tuple[str, ...]] = {
    "Experiments": ("run", "validate", "report", "view", "topologies"),
    "A program of yours, one collective, the controller alone": ("exec", "perf", "controller"),
    "A testbed that stays up": ("demo", "up", "status", "dashboard", "down"),
    "Changes to that testbed": (
        "fail",
        "blackhole",
        "heal",
        "shape",
        "flap",
        "isolate",
        "crash",
        "restart",
        "trace",
        "play",
    ),
    "Its control loops": ("arm", "reorder", "ring"),
    "Inside its datacenters and links": ("sh", "capture"),
    "This machine": ("doctor", "clean"),
}
"""Every verb, as a person would look for it."""


class _Verbs(TyperGroup):
    """Lists verbs by group; turns what a person can cause into one message and an exit code; anything else keeps its
    traceback."""

    def format_commands(self, ctx: typer.Context, formatter: HelpFormatter) -> None:
        """The verbs in the help text, none of them cut."""
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(verb, self.commands[verb].get_short_help_str(WHOLE)) for verb in verbs])

    def invoke(self, ctx: typer.Context) -> object:
        try:
            return super().invoke(ctx)
        except RingroadError as error:
            typer.echo(f"ringroad: {error}", err=True)
            raise typer.Exit(error.exit_code) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            typer.echo(f"ringroad: {refused_by_system(error, 'ringroad cannot go on')}", err=True)
            raise typer.Exit(RingroadError.exit_code) from error
        except KeyboardInterrupt as error:
            typer.echo("ringroad: interrupted", err=True)
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from error


app = typer.Typer(
    name="ringroad",
    cls=_Verbs,
    help="A wind tunnel for collectives that cross datacenters.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"ringroad {version('ringroad')}")
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    logging.basicConfig(handlers=[_ToStandardError()], format="%(message)s", level=logging.INFO)


class _ToStandardError(logging.StreamHandler):
    """Looks up `sys.stderr` for each line, so that a progress bar can put lines above itself."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> object:
        return sys.stderr


app.command("run")(run.run)
app.command("validate")(validate.validate)
app.command("exec", context_settings={"allow_interspersed_args": False})(exec.execute)
app.command("report")(report.report)
app.command("perf")(perf.perf)
app.command("view")(view.view)
app.command("dashboard")(dashboard.dashboard)
app.add_typer(topologies.app, name="topologies")
app.command("controller")(controller.controller)
app.command("doctor")(doctor.doctor)
app.command("clean")(clean.clean)
live.add_to(app)


def _have_streams() -> None:
    """Whatever started this: file descriptors 0 to 2 are no files of ours, and no sign is too odd to be written."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def main() -> None:
    """The `ringroad` command."""
    _have_streams()
    app(prog_name="ringroad")


if __name__ == "__main__":
    main()
