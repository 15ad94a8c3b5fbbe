"""Lets a script that asks for gloo, or for no backend at all, run on the `ring` backend: not a line of it changes.

torch calls `autoload` at the end of its import where it is an entry point of the group `torch.backends`; it does
nothing unless the environment asks for it. `RINGROAD_GLOO=ring`: gloo means ring, and nothing else does; `gloo`: gloo
stays gloo. Either way `init_process_group("ring")` works without an import, and whoever started the script is told when
this rank has joined its first group.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

from topologies.errors import InputError, RingroadError

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

    _put_in_place(asked == "ring")


def _put_in_place(on_ring: bool) -> None:
    """torch makes every group, whoever asks, in one function of one module, which it looks up when it calls it."""
    from torch.distributed import distributed_c10d as groups

    made = getattr(groups, _HELPER, None)
    if made is None or not {"backend", "global_ranks_in_group"} <= set(signature(made).parameters):
        if not on_ring:
            return
        remedy = "run the script on gloo itself, with --stock-gloo, or with the torch that Ringroad is tested with"
        raise InputError("this torch makes process groups in another way", place=VARIABLE, value="ring", remedy=remedy)
    setattr(groups, _HELPER, _in_place_of(made, groups.Backend if on_ring else None))


def _in_place_of(made: Callable[..., Any], backend: type | None) -> Callable[..., Any]:
    """`backend` is torch's class of backends, or None where gloo stays gloo."""
    order = signature(made)

    @wraps(made)
    def make(*arguments: Any, **named: Any) -> Any:
        given = order.bind(*arguments, **named)
        if backend is not None and str(given.arguments["backend"]).lower() in STANDS_FOR:
            given.arguments["backend"] = backend("ring")
        group = made(*given.args, **given.kwargs)
        if not given.arguments["global_ranks_in_group"]:  # As torch has it: the default group.
            _tell_joined()
        return group

    return make


def _tell_joined() -> None:
    """Nobody has to listen."""
    from workers.backend.automatic import VARIABLE as AGENT
    from workers.backend.journal import tell

    with suppress(RingroadError, OSError, ValueError, KeyError, TypeError):
        tell(Path(json.loads(os.environ[AGENT])["records_socket"]), {"joined": int(os.environ["RANK"])})
