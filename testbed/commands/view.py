"""`ringroad view`: the dashboard of a finished run, with a time slider."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands.options import AsJson, ListenOn, NoToken, TokenFile

if TYPE_CHECKING:
    from testbed.live.web.sources import Source

log = logging.getLogger(__name__)


def view(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.", show_default=False)],
    listen: ListenOn = "0",
    token_file: TokenFile = None,
    no_token: NoToken = False,
    as_json: AsJson = False,
) -> None:
    """Show a run in the browser: map, ring, paths, completion times, at any moment of it. Ctrl-C ends it.

    The address goes to stdout; open it in a browser. Nothing is loaded from outside, nothing is written.

    \b
    Examples:
      ringroad view runs/quickstart-20260102T030405Z-k3f9
      ringroad view runs/quickstart-20260102T030405Z-k3f9 --listen 8080 --no-token
    """
    from testbed.live.web.recording import Recording
    from testbed.live.web.sources import RunSource
    from testbed.runfolder import open_run

    show(lambda: RunSource(Recording(open_run(folder))), listen, token_file, no_token, as_json, f"the run in {folder}")


def show(
    make_source: Callable[[], Source], listen: str, token_file: Path | None, no_token: bool, as_json: bool, what: str
) -> None:
    """Serve until Ctrl-C, or the end of what is shown."""
    import json

    from testbed.interruption import interruptible
    from testbed.live.web.serving import read_listen, read_token, serve

    def announce(address: str) -> None:
        typer.echo(json.dumps({"address": address}) if as_json else address)
        log.info("showing %s; Ctrl-C ends it", what)

    where, token = read_listen(listen), read_token(token_file) if token_file else None
    try:
        with interruptible():
            serve(make_source, where, token=token, without_token=no_token, announce=announce)
    except KeyboardInterrupt:
        log.info("ended")
