"""`ringroad clean`: removes what a killed run left behind, and nothing else."""

from __future__ import annotations

import typer

from testbed.commands.options import AsJson


def clean(as_json: AsJson = False) -> None:
    """Remove what a killed run left: its bridges, interfaces, processes, state. Needs root.

    Touches nothing of anybody else's, nor of a run that lives.

    \b
    Example:
      ringroad clean
    """
    import json

    from testbed.emulation.clean import clean as remove

    removed = remove()
    if as_json:
        typer.echo(json.dumps({"removed": removed}, indent=2))
        return
    for thing in removed:
        typer.echo(f"removed {thing}")
    if not removed:
        typer.echo("nothing to remove")
