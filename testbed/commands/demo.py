"""`ringroad demo`: a WAN, workers in a loop, the dashboard, and a short tour."""

from __future__ import annotations

import logging
import socket
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.options import AsJson
from testbed.commands.play import show
from testbed.commands.up import foreground, need_root, settings_of, tell
from topologies.errors import InputError, RingroadError

if TYPE_CHECKING:
    from testbed.live.operations import Parts
    from testbed.live.scenario import Step

log = logging.getLogger(__name__)

WAN = "six"
PORT = 8788
"""Taken if it is free, so that it can be known beforehand (the Vagrantfile does)."""

TOUR = "tour.yaml"


def demo(
    tour: Annotated[
        bool, typer.Option("--tour", help="A scripted tour of about a minute, which says what to look for.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="With --tour: end when it is over.")] = False,
    wan: Annotated[str, typer.Option(help="Another WAN; the tour is made for the default one.")] = WAN,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS:]PORT", help=f"Of the dashboard.  [default: {PORT}, or a free port]", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Bring a WAN up with workers that never stop and the dashboard, and print its address. Ctrl-C ends it.

    \b
    Examples:
      ringroad demo
      ringroad demo --tour
    """
    if once and not tour:
        raise InputError("only a tour is ever over", place="--once", remedy="ringroad demo --tour --once")
    need_root()
    settings = settings_of(
        wan, arm="static", trace=None, workers=True, payload="512KiB", every="600ms", reorder_every=3, source="feed",
        t_wan="500ms", policy="widest", seed=1, dashboard=(str(_free(PORT)) if listen is None else listen, None),
    )  # fmt: skip

    def ready(parts: Parts) -> None:
        tell(parts, as_json) if as_json else typer.echo(f"the dashboard: {parts.dashboard}")
        log.info(
            "from another terminal: ringroad status, ringroad fail tokyo oregon, ringroad heal all; Ctrl-C ends it"
        )
        if tour:
            threading.Thread(target=_tour, args=(parts, once, as_json), name="tour", daemon=True).start()

    raise typer.Exit(foreground(settings, ready))


def _free(port: int) -> int:
    """That port of 127.0.0.1, or 0 if somebody has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _tour(parts: Parts, once: bool, as_json: bool) -> None:
    """As `ringroad play` would, from here; as JSON, a step a line."""
    import json
    from pathlib import Path

    from testbed import live
    from testbed.live import scenario as scenarios
    from testbed.live.client import Client
    from testbed.live.protocol import SOCKET

    def as_line(step: Step, did: str) -> None:
        typer.echo(json.dumps({"at_s": step.at_s, "say": step.say, "did": did}, ensure_ascii=False))

    try:
        scenario = scenarios.load_scenario(Path(live.__file__).with_name(TOUR))
        with Client(parts.bed.state / SOCKET) as testbed:
            scenarios.check(scenario, testbed)
            scenarios.play(scenario, testbed, as_line if as_json else show)
    except RingroadError as error:
        log.warning("the tour has ended: %s", error)
    if once:
        parts.stop()
