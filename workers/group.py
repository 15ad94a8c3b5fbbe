"""The `ring` backend: `import workers.group`, then `init_process_group("ring")`, and the script's rings can re-order.

Ring order: `set_order`, or a ring agent that the environment asks for (`workers.backend.automatic`). How collectives
run is `workers.backend`'s. Where a rank dies, collectives of the others raise `RankDied`. Knows no testbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from topologies.errors import InputError
from workers.agent import Ring
from workers.backend.deathwatch import RankDied
from workers.backend.processgroup import RingProcessGroup

__all__ = ["RankDied", "ring_of", "set_order"]


def set_order(group: dist.ProcessGroup | None, order: Sequence[int]) -> Ring:
    """Run the bulk collectives of `group` (None: the default one) in this order of its ranks from here on.

    A collective itself: every rank of the group calls it, between the same two collectives, with the same order.
    Blocks until all agree; returns the ring with its epoch, the count of changes. InputError if `order` is no order
    of the group's ranks or the group is not of this backend, Disagreement if ranks differ (the order then stays).
    """
    ring_group = _ring_group(group)
    ring_group.set_order(order)
    return ring_group.ring


def ring_of(group: dist.ProcessGroup | None = None) -> Ring:
    """The ring of `group` as it is now. InputError if the group is not of this backend."""
    return _ring_group(group).ring


def _ring_group(group: dist.ProcessGroup | None) -> RingProcessGroup:
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, RingProcessGroup):
        raise InputError("not a process group of the ring backend", value=found, remedy='init_process_group("ring")')
    return found


def _create(options: Any, _: Any) -> RingProcessGroup:
    return RingProcessGroup(options)


if "RING" not in dist.Backend._plugins:
    dist.Backend.register_backend("ring", _create, extended_api=True, devices=["cpu"])
