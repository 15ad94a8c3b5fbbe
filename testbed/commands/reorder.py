"""`ringroad reorder`: how often the ring agent of the running testbed decides."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.commands import names
from testbed.commands.asking import change
from testbed.commands.options import AsJson
from topologies.errors import InputError, did_you_mean

HOW = ("every", "never")


def reorder(
    how: Annotated[str, typer.Argument(metavar="every|never", autocompletion=names.one_of(*HOW), show_default=False)],
    number: Annotated[int | None, typer.Argument(metavar="N", help="Of collectives.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Let the ring agent decide before every N-th collective, or never. It acts in the arms ccl and joint.

    \b
    Examples:
      ringroad reorder every 5
      ringroad reorder never
    """
    if how not in HOW:
        remedy = f"ringroad reorder every {how}" if how.isdecimal() else did_you_mean(how, list(HOW))
        raise InputError("reorder how often?", value=how, remedy=remedy)
    if (how == "every") != (number is not None):
        raise InputError("a number belongs to every, and to nothing else", remedy="ringroad reorder every 5")
    change(lambda testbed: testbed.reorder(number or 0), as_json)
