"""`ringroad shape`: rate, delay, jitter and loss of a link of the running testbed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.asking import FirstSite, SecondSite, change, link_of
from testbed.commands.options import AsJson
from topologies.errors import InputError

if TYPE_CHECKING:
    from testbed.live.client import Client
    from testbed.live.protocol import Done


def shape(
    a: FirstSite,
    b: SecondSite = None,
    rate: Annotated[str | None, typer.Option(help="As 20mbit.", show_default=False)] = None,
    delay: Annotated[str | None, typer.Option(help="As 40ms.", show_default=False)] = None,
    jitter: Annotated[str | None, typer.Option(help="As 2ms.", show_default=False)] = None,
    loss: Annotated[str | None, typer.Option(help="As 0.1%, or 0.001.", show_default=False)] = None,
    one_way: Annotated[bool, typer.Option("--one-way", help="Only from A to B.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change what a link does to packets, in place, both ways; what is not given stays.

    Delay, jitter and loss need a kernel with netem: ringroad doctor.

    \b
    Examples:
      ringroad shape tokyo oregon --rate 20mbit
      ringroad shape tokyo oregon --rate 20mbit --delay 40ms --one-way
    """
    if one_way and b is None:
        raise InputError(
            "a link has two ways", place="--one-way", remedy="give both sites: ringroad shape A B --one-way"
        )

    def act(testbed: Client) -> Done:
        direction = [a, b] if one_way else None
        return testbed.change(
            "shape",
            link=a if b is None else list(link_of(a, b)),
            rate=rate,
            delay=delay,
            jitter=jitter,
            loss=_number(loss),
            one_way=direction,
        )

    change(act, as_json)


def _number(loss: str | None) -> str | float | None:
    """`0.001` as a number; `0.1%` and whatever is wrong as it is."""
    try:
        return loss if loss is None else float(loss)
    except ValueError:
        return loss
