"""`ringroad trace`: capacities of the running testbed that change by themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.commands import names
from testbed.commands.asking import change
from testbed.commands.options import AsJson


def trace(
    what: Annotated[
        str,
        typer.Argument(
            metavar="start|stop|FILE",
            help="A CSV of rates, a YAML file with a trace (an experiment is one), or {kind: …} as in there.",
            autocompletion=names.one_of("start", "stop"),
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Play a trace from its beginning: the one that was given last, or another one. `stop` leaves links as they are.

    \b
    Examples:
      ringroad trace experiments/quickstart.yaml
      ringroad trace '{kind: redraw, every: 5s, low: 10mbit, high: 60mbit}'
      ringroad trace stop
    """
    if what == "stop":
        change(lambda testbed: testbed.stop_trace(), as_json)
    else:
        given = None if what == "start" else whole(what)
        change(lambda testbed: testbed.start_trace(given), as_json)


def whole(given: str) -> str:
    """A file by its whole path, for a process that is elsewhere; what is written out stays."""
    from pathlib import Path

    from testbed.live.protocol import is_written_out

    return given if is_written_out(given) else str(Path(given).absolute())
