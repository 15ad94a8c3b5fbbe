"""`ringroad status`: what the running testbed is, and what it does."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Annotated

import typer

from testbed.commands.options import AsJson
from topologies.errors import RingroadError


def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again, until Ctrl-C.")] = False,
    routes: Annotated[bool, typer.Option("--routes", help="Of all pairs, not only of those that send.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show sites, links with their rates, load, queues and drops, routes, the ring, and the last collectives.

    \b
    Examples:
      ringroad status
      ringroad status --watch
      ringroad status --json
      ringroad status --watch --json      (a snapshot a line)
    """
    from testbed.live.client import Client
    from testbed.live.rendering import render

    if watch:
        _watch(routes, as_json)
        return
    with Client() as testbed:
        if as_json:
            typer.echo(json.dumps(testbed.ask("snapshot"), ensure_ascii=False, indent=2))
        else:
            typer.echo("\n".join(render(testbed.snapshot(), routes)))


def _watch(routes: bool, as_json: bool) -> None:
    """Looks again whenever the testbed tells its rates: on a terminal in one place, elsewhere one after the other.

    As JSON a snapshot a line. RingroadError if the testbed ends without having said so.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from testbed.live.client import Client
    from testbed.live.protocol import DownEvent, RatesEvent
    from testbed.live.rendering import render

    console = Console()
    in_place = console.is_terminal and not as_json
    screen = Live(console=console, screen=True, auto_refresh=False) if in_place else None
    with Client() as testbed, Client() as listener, screen or nullcontext():
        _, events = listener.subscribe()
        for event in events:
            if isinstance(event, DownEvent):
                break
            if not isinstance(event, RatesEvent):
                continue
            if as_json:
                typer.echo(json.dumps(testbed.ask("snapshot"), ensure_ascii=False))
                continue
            text = "\n".join(render(testbed.snapshot(), routes))
            if screen:
                screen.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            else:
                print(text, end="\n\n", flush=True)
        else:
            raise RingroadError("the testbed is gone, and did not say that it ends", "ringroad clean")
    if not as_json:
        typer.echo("the testbed has been taken down")
