"""`ringroad ring`: pin the order of the ring of the running testbed."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.commands import names
from testbed.commands.asking import change
from testbed.commands.options import AsJson


def ring(
    order: Annotated[
        str,
        typer.Argument(
            metavar="DC,DC,…|auto",
            help="Every DC once; auto: the agent's again.",
            autocompletion=names.rings,
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Pin the order of the ring, from the next collective on; the ring agent then leaves it alone.

    \b
    Examples:
      ringroad ring tokyo,oregon,virginia,frankfurt
      ringroad ring auto
    """
    wanted = None if order == "auto" else [name.strip() for name in order.split(",")]
    change(lambda testbed: testbed.ring(wanted), as_json)
