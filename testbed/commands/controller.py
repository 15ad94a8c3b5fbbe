"""`ringroad controller`: the WAN controller alone, against any Open vSwitch, from a WAN file."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from controller.client import ControllerStatus
    from controller.settings import ControllerConfig
    from testbed.wiring import Attachment
    from topologies.model import Wan

log = logging.getLogger(__name__)

OPENFLOW_PORT = 6653
"""IANA's."""
END_S = 10.0


def controller(
    wan: Annotated[str, typer.Argument(metavar="WAN", help="A built-in WAN, or a WAN file.", show_default=False)],
    policy: Annotated[str, typer.Option(help="shortest, widest, maxmin, ecmp, or module:Class of yours.")] = "widest",
    stack: Annotated[str, typer.Option(help="ryu or os_ken.")] = "ryu",
    listen: Annotated[int, typer.Option(metavar="PORT", help="OpenFlow port; 0: the kernel picks.")] = OPENFLOW_PORT,
    http: Annotated[
        int | None, typer.Option(metavar="PORT", help="Serve /v1/… and /metrics to read; 0: the kernel picks.")
    ] = None,
    wiring: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Datapath ids and ports.  [default: by convention, see above]")
    ] = None,
    socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Unix socket for requests.  [default: in a new folder]")
    ] = None,
    tunnels: Annotated[int, typer.Option(help="Paths installed for each pair.")] = 4,
    period: Annotated[float, typer.Option(metavar="SECONDS", help="How often it looks when nothing happens.")] = 0.5,
    demands: Annotated[str, typer.Option(help="measured or announced.")] = "measured",
    capacity: Annotated[str, typer.Option(help="feed (over the socket) or measured (by port counters).")] = "feed",
) -> None:
    """Run the WAN controller alone, until Ctrl-C. Needs no root; listens on 127.0.0.1 only.

    It prints the commands that make Open vSwitch bridges its switches, and runs none of them. By convention, site i of
    the WAN file (from 1) is datapath id i with its host on port 1 (MAC 02:00:00:00:00:i) and its links on ports 2, 3, …
    in the order of the file; a wiring file says otherwise (docs/controller.md). Switches keep their rules when it ends.

    \b
    Examples:
      ringroad controller six
      ringroad controller wan.yaml --wiring wiring.yaml --policy maxmin --http 8080
    """
    from controller.policies import make_policy
    from controller.settings import ControllerConfig, ControllerSettings
    from testbed.wiring import conventional, load_wiring
    from topologies.wanfile import load_wan

    loaded = load_wan(wan)
    attachment = conventional(loaded) if wiring is None else load_wiring(wiring, loaded)
    settings = ControllerSettings(
        policy=policy,
        stack=stack,
        listen_port=listen,
        http_port=http,
        tunnels=tunnels,
        period_s=period,
        demands=demands,
        capacity=capacity,
    )
    make_policy(policy, settings)  # Says now what is wrong with it.
    with tempfile.TemporaryDirectory(prefix="ringroad-controller-") as folder:
        path = socket if socket is not None else Path(folder) / "controller.sock"
        config = ControllerConfig(loaded, attachment.wiring, path.absolute(), settings)
        raise typer.Exit(_run(config, attachment, Path(folder)))


def _run(config: ControllerConfig, attachment: Attachment, folder: Path) -> int:
    """Until a signal, or until the controller ends by itself; its exit code."""
    from controller.client import ControllerClient, wait_listening
    from controller.settings import save_config
    from testbed.interruption import interruptible

    save_config(config, folder / "controller.json")
    command = [sys.executable, "-m", "controller", "--config", str(folder / "controller.json")]
    # A session of its own: Ctrl-C ends this process, which then ends the controller.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        with interruptible():
            wait_listening(process)
            with ControllerClient(config.socket) as client:
                _show(config, client.status(), attachment)
            return process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _show(config: ControllerConfig, status: ControllerStatus, attachment: Attachment) -> None:
    """What a person needs now: where it is, and how switches get there."""
    wan: Wan = config.wan
    for line in attachment.commands(wan, status.port):
        typer.echo(line)
    log.info(
        "controller of %s: %s on %s; OpenFlow on tcp:127.0.0.1:%d", wan.name, status.policy, status.stack, status.port
    )
    log.info("requests: %s", config.socket)
    if status.http_port is not None:
        log.info("http://127.0.0.1:%d/v1/health, /v1/topology, /v1/paths, /v1/events, /metrics", status.http_port)
    log.info("waiting for %d switches; Ctrl-C ends it and leaves them as they are", len(status.missing))
