"""`ringroad arm`: which loops act in the running testbed."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.commands import names
from testbed.commands.asking import change
from testbed.commands.options import AsJson


def arm(
    name: Annotated[
        str,
        typer.Argument(
            metavar="static|wan|ccl|joint",
            help="Paths move in wan and joint, the ring in ccl and joint.",
            autocompletion=names.one_of("static", "wan", "ccl", "joint"),
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Switch to another arm while collectives run; in static and wan the ring goes back to its first order.

    \b
    Example:
      ringroad arm joint
    """
    change(lambda testbed: testbed.arm(name), as_json)
