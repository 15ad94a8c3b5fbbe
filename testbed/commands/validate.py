"""`ringroad validate`: is an experiment's file right, and what would be run?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.options import KernelOption
from testbed.kernels.choosing import Kernel

if TYPE_CHECKING:
    from testbed.experiment import Experiment


def _schema(asked: bool) -> None:
    if asked:
        import json

        from testbed.experiment import schema

        typer.echo(json.dumps(schema(), indent=2))
        raise typer.Exit


def validate(
    file: Annotated[
        Path | None, typer.Argument(metavar="EXPERIMENT.yaml", help="The experiment.", show_default=False)
    ] = None,
    schema: Annotated[
        bool,
        typer.Option("--schema", callback=_schema, is_eager=True, help="The JSON schema of such files, for editors."),
    ] = False,
    kernel: KernelOption = Kernel.AUTO,
) -> None:
    """Check an experiment's file without running it; show the plan and how long it will take. Needs no root.

    \b
    Examples:
      ringroad validate experiments/quickstart.yaml
      ringroad validate --schema >experiment.schema.json
    """
    from testbed.experiment import load_experiment

    if file is None:
        raise typer.BadParameter("give the experiment's file, or --schema", param_hint="EXPERIMENT.yaml")
    experiment = load_experiment(file)
    for line in describe(experiment, *_kernel(experiment, kernel)):
        typer.echo(line)


def _kernel(experiment: Experiment, asked: Kernel) -> tuple[Kernel, str]:
    """Where `ringroad run` would emulate it, and why; what this machine's kernel has is known to root only."""
    from testbed.kernels.choosing import needs_of
    from testbed.kernels.relaunch import choice_here

    if os.geteuid() != 0:
        unknown = f"{asked.value}; validate it as root to see what that comes to on this machine"
        return (Kernel.NATIVE if asked is Kernel.AUTO else asked), unknown
    choice = choice_here(asked, needs_of(experiment.wan, experiment.congestion_control))
    return choice.kernel, str(choice)


def describe(experiment: Experiment, kernel: Kernel, why: str) -> list[str]:
    """The plan, line by line, on that kernel; `why` also says what of the WAN cannot be emulated there."""
    from testbed.experiment import blocks_plan
    from testbed.runelsewhere import wall_s
    from topologies.units import format_duration, format_size

    wan = experiment.wan
    return [
        f"{experiment.name}: the file is right",
        f"  kernel: {why}",
        f"  WAN: {wan.name}, {len(wan.dcs)} DCs, {len(wan.links)} links; trace: {experiment.trace.kind}; "
        f"faults: {len(experiment.faults)}",
        f"  an arm: {experiment.collectives} AllGathers of {format_size(experiment.size_bytes)} per DC, about "
        f"{format_duration(experiment.expected_arm_s)} for the static one",
        *(f"  {label}" for label in experiment.labels()),
        *(
            f"  block {plan.block}: {', '.join(arm.name for arm in plan.arms)} (seed {plan.seed})"
            for plan in blocks_plan(experiment)
        ),
        f"  expected: about {format_duration(wall_s(experiment, kernel))} in all, if every arm is as slow as static",
    ]
