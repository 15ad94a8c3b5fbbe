"""`ringroad topologies`: the built-in WANs, WAN files, and their schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.options import AsJson

if TYPE_CHECKING:
    from topologies.model import Wan

app = typer.Typer(help="The WANs that come with Ringroad, and the format of your own.", no_args_is_help=True)


@app.command("list")
def list_topologies(as_json: AsJson = False) -> None:
    """List the built-in WANs.

    \b
    Example:
      ringroad topologies list
    """
    from topologies.builtins import builtin, builtin_names
    from topologies.summary import headline

    wans = {name: builtin(name) for name in builtin_names()}
    if as_json:
        typer.echo(json.dumps([_facts(name, wan) for name, wan in wans.items()], indent=2))
        return
    for wan in wans.values():
        typer.echo(f"{headline(wan)}. {wan.description}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A built-in WAN, or a WAN file.", show_default=False)],
    as_json: AsJson = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="The file itself, to begin your own from.")] = False,
) -> None:
    """Show a WAN: a map, its sites, its links. A file of yours is checked.

    \b
    Examples:
      ringroad topologies show six
      ringroad topologies show six --yaml >mine.yaml
    """
    from topologies.codec import wan_to_json
    from topologies.summary import summary
    from topologies.wanfile import builtin_files, load_wan

    wan = load_wan(name)
    if as_json:
        typer.echo(json.dumps(wan_to_json(wan), indent=2, ensure_ascii=False))
    elif as_yaml:
        typer.echo(builtin_files().get(name, Path(name)).read_text(encoding="utf-8"), nl=False)
    else:
        typer.echo(summary(wan), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of WAN files, for editors.

    \b
    Example:
      ringroad topologies schema >wan.schema.json
    """
    from topologies.wanfile import wan_schema

    typer.echo(json.dumps(wan_schema(), indent=2))


def _facts(name: str, wan: Wan) -> dict[str, object]:
    return {
        "name": name,
        "description": wan.description,
        "dcs": list(wan.dcs),
        "transit": [site.name for site in wan.sites if site.kind == "transit"],
        "links": [link.name for link in wan.links],
    }
