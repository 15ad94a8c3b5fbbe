"""`ringroad sh`: a shell, or one command, inside a datacenter of the running testbed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands import names
from testbed.commands.options import AsJson

if TYPE_CHECKING:
    from testbed.live.client import Client


def sh(
    dc: Annotated[str, typer.Argument(metavar="DC", help="A site.", autocompletion=names.sites, show_default=False)],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CMD]", help="Instead of a shell; @oregon is the address of oregon.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a command, or a shell, in the network of a datacenter: ping, iperf3, tcpdump. Exit code: the command's.

    What it starts ends with the testbed at the latest. Options go before DC.

    \b
    Examples:
      ringroad sh tokyo
      ringroad sh tokyo ping -c 3 @oregon
      ringroad sh --json tokyo iperf3 -c @oregon
    """
    from testbed.emulation.processes import RUN_MARK
    from testbed.live.client import Client

    with Client() as testbed:
        place = testbed.where(site=dc)
        words = [_address(testbed, word) for word in command or []]
    environment = os.environ | {RUN_MARK: place.run_id, "PS1": f"{dc}:\\w# "}
    whole = ["mnexec", "-a", str(place.netns_pid), *(words or ["bash", "--norc"])]
    sys.stdout.flush()
    if not as_json:
        os.execvpe(whole[0], whole, environment)
    done = subprocess.run(whole, env=environment, capture_output=True, text=True, errors="replace")
    result = {"dc": dc, "exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    typer.echo(json.dumps(result, ensure_ascii=False))
    raise typer.Exit(done.returncode)


def _address(testbed: Client, word: str) -> str:
    """`@oregon` as the address of oregon."""
    return str(testbed.where(site=word[1:]).ip) if len(word) > 1 and word.startswith("@") else word
