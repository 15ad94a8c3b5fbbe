"""How bytes move: pure plans by name. Knows neither gloo nor torch.

`SCHEDULES` need only the ring order; `PLANNED` are made for a network by the agent (`choice`), and run as a ring until
it has seen one.
"""

from workers.schedules.bidirectional import bidirectional
from workers.schedules.plan import Schedule
from workers.schedules.ring import ring

SCHEDULES: dict[str, Schedule] = {
    "ring": ring,
    "bidirectional": bidirectional,
    "multiring": ring,
    "trees": ring,
    "auto": ring,
}

PLANNED = frozenset({"multiring", "trees", "auto"})

__all__ = ["PLANNED", "SCHEDULES", "Schedule", "bidirectional", "ring"]
