"""The verbs of the live testbed, as one: those that bring it up and down, look at it, and change it."""

from __future__ import annotations

import typer

from testbed.commands import (
    arm,
    blackhole,
    capture,
    crash,
    demo,
    down,
    fail,
    flap,
    heal,
    isolate,
    play,
    reorder,
    restart,
    ring,
    sh,
    shape,
    status,
    trace,
    up,
)

VERBS = (
    *(demo.demo, up.up, down.down, status.status),
    *(fail.fail, heal.heal, blackhole.blackhole, shape.shape, flap.flap, isolate.isolate),
    *(crash.crash, restart.restart, arm.arm, reorder.reorder, ring.ring, trace.trace, play.play, capture.capture),
)


def add_to(app: typer.Typer) -> None:
    """Make them verbs of `ringroad`. What follows the DC of `sh` is the command's own, options too."""
    for verb in VERBS:
        app.command(verb.__name__)(verb)
    app.command("sh", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(sh.sh)
