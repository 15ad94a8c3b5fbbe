"""Names as they complete in the shell: of the testbed that runs, and of the WANs that there are.

A completion that cannot be found is none: nothing here fails or says anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress


def _running(kind: str) -> list[str]:
    with suppress(Exception):
        from testbed.live.client import Client

        with Client(timeout_s=2.0) as testbed:
            return testbed.names()[kind]
    return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def sites(incomplete: str) -> list[str]:
    """Sites of the running testbed."""
    return _beginning(_running("sites"), incomplete)


def dcs(incomplete: str) -> list[str]:
    """Its DCs."""
    return _beginning(_running("dcs"), incomplete)


def sites_and_links(incomplete: str) -> list[str]:
    """What the first word of a link may be: its first site, or its name."""
    return _beginning([*_running("sites"), *_running("links")], incomplete)


def healable(incomplete: str) -> list[str]:
    """As `sites_and_links`, and `all`."""
    return _beginning(["all", *_running("sites"), *_running("links")], incomplete)


def rings(incomplete: str) -> list[str]:
    """DCs after the commas that are there already; `auto`."""
    begun, comma, _ = incomplete.rpartition(",")
    taken = begun.split(",") if comma else []
    left = [dc for dc in _running("dcs") if dc not in taken]
    return _beginning([f"{begun}{comma}{dc}" for dc in left] + ["auto"], incomplete)


def wans(incomplete: str) -> list[str]:
    """The built-in WANs; files are completed by the shell."""
    with suppress(Exception):
        from topologies.builtins import builtin_names

        return _beginning(builtin_names(), incomplete)
    return []


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Completes fixed words."""
    return lambda incomplete: _beginning(words, incomplete)
