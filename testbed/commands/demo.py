"""`ringroad demo`: a WAN, workers in a loop, the dashboard, and a short tour."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.options import AsJson, KernelOption
from testbed.commands.play import show
from testbed.commands.up import bring_up, check_kernel, inside, kernel_of, need_root, settings_of, tell
from testbed.kernels.choosing import Kernel
from topologies.errors import InputError, RingroadError

if TYPE_CHECKING:
    from testbed.live.running import Running
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
    kernel: KernelOption = Kernel.AUTO,
    as_json: AsJson = False,
) -> None:
    """Bring a WAN up with workers that never stop and the dashboard, and print its address. Ctrl-C ends it.

    \b
    Examples:
      ringroad demo
      ringroad demo --tour
      ringroad demo --kernel uml
    """
    from testbed.kernels.inside import is_inside

    if once and not tour:
        raise InputError("only a tour is ever over", place="--once", remedy="ringroad demo --tour --once")
    check_kernel(kernel)
    need_root()
    address = str(_free(PORT)) if listen is None else listen
    settings = settings_of(
        wan, arm="static", trace=None, workers=True, payload="512KiB", every="600ms", reorder_every=3, source="feed",
        t_wan="500ms", policy="widest", seed=1, dashboard=None if is_inside() else (address, None),
    )  # fmt: skip
    if is_inside():
        raise typer.Exit(inside(settings))

    def ready(running: Running) -> None:
        tell(running, as_json) if as_json else typer.echo(f"the dashboard: {running.dashboard}")
        log.info(
            "from another terminal: ringroad status, ringroad fail tokyo oregon, ringroad heal all; Ctrl-C ends it"
        )
        if tour:
            threading.Thread(target=_tour, args=(running.socket, once, as_json), name="tour", daemon=True).start()

    raise typer.Exit(bring_up(settings, kernel_of(kernel, settings), ready))


def _free(port: int) -> int:
    """That port of 127.0.0.1, or 0 if somebody has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _tour(socket_path: Path, once: bool, as_json: bool) -> None:
    """As `ringroad play` would, from here; as JSON, a step a line."""
    import json

    from testbed import live
    from testbed.live import scenario as scenarios
    from testbed.live.client import Client

    def as_line(step: Step, did: str) -> None:
        typer.echo(json.dumps({"at_s": step.at_s, "say": step.say, "did": did}, ensure_ascii=False))

    try:
        scenario = scenarios.load_scenario(Path(live.__file__).with_name(TOUR))
        with Client(socket_path) as testbed:
            scenarios.check(scenario, testbed)
            scenarios.play(scenario, testbed, as_line if as_json else show)
    except RingroadError as error:
        log.warning("the tour has ended: %s", error)
    if once:
        with suppress(RingroadError), Client(socket_path) as testbed:  # It may be ending already.
            testbed.down()
