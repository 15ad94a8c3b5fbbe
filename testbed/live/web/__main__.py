"""The dashboard of a running testbed as a process of its own: `python -m testbed.live.web --socket SOCKET`.

Writes one line of JSON with its address on stdout once it answers; ends with the testbed.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path

from testbed.live.web.livesource import LiveSource
from testbed.live.web.serving import DEFAULT_LISTEN, read_listen, read_token, serve
from topologies.errors import RingroadError


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m testbed.live.web", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="control socket of the testbed")
    parser.add_argument(
        "--listen", default=DEFAULT_LISTEN, metavar="[ADDRESS:]PORT", help="default: a free loopback port"
    )
    parser.add_argument("--token-file", type=Path, help="a file whose first line is the token; default: a new one")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        token = read_token(asked.token_file) if asked.token_file else None
        serve(lambda: LiveSource(asked.socket), read_listen(asked.listen), token=token, announce=_say)
    except RingroadError as error:
        print(f"dashboard: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _say(address: str) -> None:
    print(json.dumps({"address": address}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
