"""`ringroad down`: the end of the running testbed."""

from __future__ import annotations

import json
import os
import select
import time

import typer

from testbed.commands.options import AsJson
from topologies.errors import RingroadError

LONGEST_S = 60.0


def down(as_json: AsJson = False) -> None:
    """Take the running testbed down; returns when nothing is left of it.

    \b
    Example:
      ringroad down
    """
    from testbed.live.client import Client

    began_at = time.monotonic()
    with Client() as testbed:
        run_id, folder = testbed.path.parent.name, testbed.path.parent
        process = os.pidfd_open(testbed.pid)
        try:
            testbed.down()
            ended, _, _ = select.select([process], [], [], LONGEST_S)
        finally:
            os.close(process)
    if not ended or folder.exists():
        raise RingroadError(f"run {run_id} did not end cleanly", "ringroad clean removes what is left of it")
    took_s = time.monotonic() - began_at
    if as_json:
        typer.echo(json.dumps({"did": "down", "run_id": run_id, "took_s": round(took_s, 3)}))
    else:
        typer.echo(f"run {run_id} is down; nothing is left of it")
