"""The figures of the main job: fidelity, collectives, control and commands, each as a ratio or against a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks import collectives, commands, control, network
from benchmarks.figure import Figure, figures_of

PARTS: tuple[Callable[[], Iterator[Figure]], ...] = (
    commands.help_time,
    network.goodput_of_all_links,
    network.rate_changes,
    collectives.ring_against_limit_and_gloo,
    collectives.up_and_down,
    control.capacity_drops,
    control.planned_moves,
    commands.quickstart,
)


def measure(say: Callable[[str], None]) -> Iterator[Figure]:
    """The main job: do links carry their rates, is the ring fast, are routes moved soon and without loss?"""
    yield from figures_of(PARTS, say)
