"""`ringroad dashboard`: the page of the running testbed."""

from __future__ import annotations

from testbed.commands.options import AsJson, ListenOn, NoToken, TokenFile
from testbed.commands.view import show


def dashboard(
    listen: ListenOn = "0",
    token_file: TokenFile = None,
    no_token: NoToken = False,
    as_json: AsJson = False,
) -> None:
    """Show the running testbed in the browser, and change it there. Needs root. Ctrl-C ends it, and the testbed stays.

    The address goes to stdout; open it in a browser on this machine. Nothing is loaded from outside.

    \b
    Examples:
      ringroad dashboard
      ringroad dashboard --listen 0.0.0.0:8080      (reached from other machines, by who has the token)
    """
    from testbed.live.client import find_socket
    from testbed.live.web.livesource import LiveSource

    socket = find_socket()
    show(lambda: LiveSource(socket), listen, token_file, no_token, as_json, "the running testbed")
