"""`ringroad play`: a timed list of changes to the running testbed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testbed.commands.options import AsJson

if TYPE_CHECKING:
    from testbed.live.scenario import Step


def play(
    file: Annotated[Path, typer.Argument(metavar="SCENARIO.yaml", help="The scenario.", show_default=False)],
    check: Annotated[bool, typer.Option("--check", help="Only check it against the running testbed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play a scenario: every verb that changes the testbed, each at its time. Checked whole before anything is done.

    Ctrl-C ends it where it is; what it did stays. docs/live.md has the format.

    \b
    Examples:
      ringroad play testbed/live/tour.yaml
      ringroad play mine.yaml --check
    """
    from testbed.live import scenario as scenarios
    from testbed.live.client import Client

    scenario = scenarios.load_scenario(file)
    done: list[dict[str, Any]] = []

    def tell(step: Step, did: str) -> None:
        done.append({"at_s": step.at_s, "say": step.say, "did": did})
        if not as_json:
            show(step, did)

    with Client() as testbed:
        scenarios.check(scenario, testbed)
        if not check:
            scenarios.play(scenario, testbed, tell)
    if as_json:
        typer.echo(json.dumps({"name": scenario.name, "checked": True, "steps": done}, ensure_ascii=False, indent=2))
    elif check:
        typer.echo(f"{scenario.name}: right, {len(scenario.steps)} steps, {scenario.steps[-1].at_s:g} s")


def show(step: Step, did: str) -> None:
    """A step as people read it."""
    if step.say:
        typer.echo(f"{step.at_s:6.1f} s  {step.say}")
    if did:
        typer.echo(f"{step.at_s:6.1f} s    {did}")
