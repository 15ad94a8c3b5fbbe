"""`ringroad restart`: bring the worker of a DC back."""

from __future__ import annotations

from testbed.commands.asking import OneDc, change
from testbed.commands.options import AsJson


def restart(dc: OneDc, as_json: AsJson = False) -> None:
    """Bring the worker of a DC back, after `crash` or after it died by itself.

    \b
    Example:
      ringroad restart tokyo
    """
    change(lambda testbed: testbed.restart(dc), as_json)
