"""The figures of the main job: fidelity, collectives, control and commands, each as a ratio or against a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks import collectives, commands, control, network
from benchmarks.figure import Figure, Reach, failed
from topologies import RingroadError

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
    for part in PARTS:
        what = (part.__doc__ or part.__name__).splitlines()[0]
        say(what)
        try:
            yield from part()
        except RingroadError as error:
            say(f"failed: {error}")
            yield failed(what, "", "", Reach())
