"""How bytes move: pure plans by name. Knows neither gloo nor torch."""

from workers.schedules.plan import Schedule
from workers.schedules.ring import ring

SCHEDULES: dict[str, Schedule] = {"ring": ring}
