"""`ringroad blackhole`: a link of the running testbed that looks healthy and passes nothing."""

from __future__ import annotations

from testbed.commands.asking import FirstSite, SecondSite, change, link_of
from testbed.commands.options import AsJson


def blackhole(a: FirstSite, b: SecondSite = None, as_json: AsJson = False) -> None:
    """Let nothing pass a link of the running testbed, both ways, while its carrier stays.

    \b
    Example:
      ringroad blackhole tokyo oregon
    """
    change(lambda testbed: testbed.blackhole(link_of(a, b)), as_json)
