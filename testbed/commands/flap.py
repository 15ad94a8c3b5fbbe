"""`ringroad flap`: a link of the running testbed that goes down and up again and again."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.commands.asking import FirstSite, SecondSite, change, link_of
from testbed.commands.options import AsJson


def flap(
    a: FirstSite,
    b: SecondSite = None,
    period: Annotated[str, typer.Option(help="Down for half of it, up for the other.")] = "2s",
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="For so long.")] = "30s",
    as_json: AsJson = False,
) -> None:
    """Take a link down and up; it ends up. Returns at once; `heal` and `fail` end it early.

    \b
    Example:
      ringroad flap tokyo oregon --period 2s --for 30s
    """
    link = link_of(a, b)
    plain = link if isinstance(link, str) else list(link)
    change(lambda testbed: testbed.change("flap", link=plain, period=period, **{"for": duration}), as_json)
