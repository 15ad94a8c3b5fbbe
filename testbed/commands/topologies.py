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

    wans = {name: builtin(name) for name in builtin_names()}
    if as_json:
        typer.echo(json.dumps([_facts(name, wan) for name, wan in wans.items()], indent=2))
        return
    width = max(len(name) for name in wans)
    for name, wan in wans.items():
        typer.echo(f"{name:{width}}  {_in_short(wan)}. {wan.description}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A built-in WAN, or a WAN file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Show a WAN as the file it is: copy one to begin your own. A file of yours is checked.

    \b
    Examples:
      ringroad topologies show six
      ringroad topologies show six >mine.yaml
    """
    from topologies.codec import wan_to_json
    from topologies.wanfile import builtin_files, load_wan

    wan = load_wan(name)
    if as_json:
        typer.echo(json.dumps(wan_to_json(wan), indent=2, ensure_ascii=False))
    else:
        typer.echo(builtin_files().get(name, Path(name)).read_text(encoding="utf-8"), nl=False)
    typer.echo(f"{wan.name}: {_in_short(wan)}", err=True)


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


def _in_short(wan: Wan) -> str:
    from topologies.units import format_rate

    rates = [properties.rate_bps for properties in wan.edges.values()]
    low, high = format_rate(min(rates)), format_rate(max(rates))
    transit = len(wan.sites) - len(wan.dcs)
    sites = f"{len(wan.dcs)} DCs" + (f", {transit} transit" if transit else "")
    return f"{sites}, {len(wan.links)} links of {low if low == high else f'{low} to {high}'}"
