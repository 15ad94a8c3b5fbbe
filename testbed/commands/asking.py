"""What verbs share that change a running testbed: a link by one word or two, the reply in words or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands import names

if TYPE_CHECKING:
    from testbed.live.client import Client
    from testbed.live.protocol import Done

FirstSite = Annotated[
    str,
    typer.Argument(
        metavar="A", help="A site; or a link by its name.", autocompletion=names.sites_and_links, show_default=False
    ),
]
SecondSite = Annotated[
    str | None,
    typer.Argument(metavar="B", help="The site at its other end.", autocompletion=names.sites, show_default=False),
]
OneDc = Annotated[str, typer.Argument(metavar="DC", help="A datacenter.", autocompletion=names.dcs, show_default=False)]


def link_of(a: str, b: str | None) -> str | tuple[str, str]:
    """`tokyo oregon` and `tokyo-oregon` are the same link."""
    return a if b is None else (a, b)


def change(act: Callable[[Client], Done], as_json: bool) -> None:
    """Ask the running testbed, and say what it did."""
    from testbed.live.client import Client

    with Client() as testbed:
        done = act(testbed)
    if as_json:
        typer.echo(json.dumps({"did": done.did, "at": done.at, "targets": list(done.targets)}, ensure_ascii=False))
    else:
        typer.echo(done.did)
