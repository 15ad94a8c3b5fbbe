"""`ringroad heal`: end what was done to links of the running testbed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands import names
from testbed.commands.asking import SecondSite, change
from testbed.commands.options import AsJson

if TYPE_CHECKING:
    from testbed.live.client import Client
    from testbed.live.protocol import Done


def heal(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A|all",
            help="A site, a link by its name, or all.",
            autocompletion=names.healable,
            show_default=False,
        ),
    ],
    b: SecondSite = None,
    as_json: AsJson = False,
) -> None:
    """End fail, blackhole, flap and isolate: of a link, of all links of a site, or of all. Rates stay.

    \b
    Examples:
      ringroad heal tokyo oregon
      ringroad heal tokyo
      ringroad heal all
    """

    def act(testbed: Client) -> Done:
        if b is not None:
            return testbed.heal((a, b))
        if a == "all":
            return testbed.heal()
        return testbed.heal(site=a) if a in testbed.names()["sites"] else testbed.heal(a)

    change(act, as_json)
