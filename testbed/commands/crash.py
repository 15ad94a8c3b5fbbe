"""`ringroad crash`: kill the worker of a DC of the running testbed."""

from __future__ import annotations

from testbed.commands.asking import OneDc, change
from testbed.commands.options import AsJson


def crash(dc: OneDc, as_json: AsJson = False) -> None:
    """Kill the worker of a DC, as if its machine had died; the others go on without it.

    \b
    Example:
      ringroad crash tokyo
    """
    change(lambda testbed: testbed.crash(dc), as_json)
