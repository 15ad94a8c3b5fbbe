"""Lets a script that asks for gloo, or for no backend at all, run on the `ring` backend: not a line of it changes.

torch calls `autoload` at the end of its import where it is an entry point of the group `torch.backends`; it does
nothing unless the environment asks for it. `RINGROAD_GLOO=ring`: gloo means ring, and nothing else does; `gloo`: gloo
stays gloo. Either way `init_process_group("ring")` works without an import.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from topologies.errors import InputError

VARIABLE = "RINGROAD_GLOO"
STANDS_FOR = ("gloo", "cpu:gloo", "undefined")
"""Backends, as torch writes them once it has read what the script gave; the last one means: none was given."""

_HELPER = "_new_process_group_helper"


def autoload() -> None:
    """Register the backend `ring`, and put it in gloo's place where the environment says so.

    InputError if the variable says something else, or this torch makes its groups in a way that is not known.
    """
    asked = os.environ.get(VARIABLE)
    if asked is None:
        return
    if asked not in ("ring", "gloo"):
        raise InputError("neither ring nor gloo", place=VARIABLE, value=asked, remedy="ringroad exec sets it")
    import workers.group  # noqa: F401  (registers the backend)

    if asked == "ring":
        _put_in_place()


def _put_in_place() -> None:
    """torch makes every group, whoever asks, in one function of one module, which it looks up when it calls it."""
    from torch.distributed import distributed_c10d as groups

    made = getattr(groups, _HELPER, None)
    if made is None or "backend" not in signature(made).parameters:
        remedy = "run the script on gloo itself, with --stock-gloo, or with the torch that Ringroad is tested with"
        raise InputError("this torch makes process groups in another way", place=VARIABLE, value="ring", remedy=remedy)
    setattr(groups, _HELPER, _on_ring(made, groups.Backend))


def _on_ring(made: Callable[..., Any], backend: type) -> Callable[..., Any]:
    order = signature(made)

    @wraps(made)
    def make(*arguments: Any, **named: Any) -> Any:
        given = order.bind(*arguments, **named)
        if str(given.arguments["backend"]).lower() in STANDS_FOR:
            given.arguments["backend"] = backend("ring")
        return made(*given.args, **given.kwargs)

    return make
