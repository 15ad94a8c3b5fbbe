"""`ringroad isolate`: cut a DC of the running testbed off."""

from __future__ import annotations

from testbed.commands.asking import OneDc, change
from testbed.commands.options import AsJson


def isolate(dc: OneDc, as_json: AsJson = False) -> None:
    """Take down every link of a DC: it is cut off from all others. `heal DC` joins it again.

    \b
    Example:
      ringroad isolate tokyo
    """
    change(lambda testbed: testbed.isolate(dc), as_json)
