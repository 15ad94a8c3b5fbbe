"""`ringroad sh`: a shell, or one command, inside a datacenter of the running testbed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
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
    from testbed.emulation.precedence import follow
    from testbed.emulation.processes import RUN_MARK
    from testbed.kernels.visit import SOCKET, carry_here
    from testbed.live.client import Client

    with Client() as testbed:
        place = testbed.where(site=dc)
        words = [_address(testbed, word) for word in command or []]
    environment = os.environ | {RUN_MARK: place.run_id, "PS1": f"{dc}:\\w# "}
    whole = ["mnexec", "-a", str(place.netns_pid), *(words or ["bash", "--norc"])]
    elsewhere = testbed.path.with_name(SOCKET)
    if not elsewhere.exists():
        follow(0, place.netns_pid)
    sys.stdout.flush()
    if as_json:
        code, stdout, stderr = _collected(whole, environment, elsewhere if elsewhere.exists() else None)
        typer.echo(json.dumps({"dc": dc, "exit_code": code, "stdout": stdout, "stderr": stderr}, ensure_ascii=False))
        raise typer.Exit(code)
    if elsewhere.exists():
        raise typer.Exit(carry_here(elsewhere, whole, environment))
    os.execvpe(whole[0], whole, environment)


def _collected(command: list[str], environment: dict[str, str], elsewhere: Path | None) -> tuple[int, str, str]:
    """Exit code, output and errors of a command here, or in the kernel that is reached `elsewhere`."""
    from testbed.kernels.visit import FORWARDED, Visit, signals_passed_on

    if elsewhere is None:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
        return done.returncode, done.stdout, done.stderr
    output, errors = bytearray(), bytearray()
    with Visit(elsewhere, command, environment) as visit, signals_passed_on(visit, {each: each for each in FORWARDED}):
        code = visit.carry(sys.stdin.fileno(), output.extend, errors.extend)
    return code, output.decode(errors="replace"), errors.decode(errors="replace")


def _address(testbed: Client, word: str) -> str:
    """`@oregon` as the address of oregon."""
    return str(testbed.where(site=word[1:]).ip) if len(word) > 1 and word.startswith("@") else word
