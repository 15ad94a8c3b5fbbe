"""`ringroad fail`: take a link of the running testbed down."""

from __future__ import annotations

from testbed.commands.asking import FirstSite, SecondSite, change, link_of
from testbed.commands.options import AsJson


def fail(a: FirstSite, b: SecondSite = None, as_json: AsJson = False) -> None:
    """Take a link of the running testbed down at both ends: its switches see the carrier go.

    \b
    Examples:
      ringroad fail tokyo oregon
      ringroad fail tokyo-oregon --json
    """
    change(lambda testbed: testbed.fail(link_of(a, b)), as_json)
