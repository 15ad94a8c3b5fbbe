"""Ends what waits in a process group, wherever it waits: the one way in which gloo lets go before its timeout.

gloo cannot be interrupted. But a wait that times out closes every connection of its rank in that group for good: who
waits in it, here in any thread or at a peer, then gets its error at once.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import torch
from torch.distributed import ProcessGroupGloo

_TAG = 2**31 - 1
_AT_ONCE = timedelta(milliseconds=1)


def break_connections(group: ProcessGroupGloo) -> None:
    """Close every connection of this rank in `group`. Takes some ms; any thread; never raises. Idempotent.

    With a peer that is dead nothing times out, so all are tried: the first that lives does it.
    """
    nothing = torch.empty(1, device="cpu")
    for peer in range(group.size()):
        if peer != group.rank():
            with suppress(RuntimeError):
                group.recv([nothing], peer, _TAG).wait(_AT_ONCE)
