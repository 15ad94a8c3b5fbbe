"""Follows each reconfiguration from decision to the last switch's confirmation. No I/O; times are arguments."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from controller.records import Move, Reconfiguration
from controller.view import Pair


@dataclass
class _Open:
    record: Reconfiguration
    waiting: dict[Pair, str]
    """Pairs not confirmed yet, each with the tag it moves to."""
    last_confirmed_at: float | None = None


class Journal:
    """Reconfigurations that are on their way. Each method returns those that it has finished, in order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[_Open] = []

    def open(
        self,
        cause: str,
        times: tuple[float, float, float],
        moves: tuple[Move, ...],
        tags: dict[Pair, str],
        connected: Collection[str],
    ) -> tuple[Reconfiguration, list[Reconfiguration]]:
        """A new one, numbered from 1; `times` are when its cause happened, was seen, and was decided upon.

        `tags` holds the tunnel each moved pair goes to; a pair whose own switch is not in `connected` is lost at once.
        """
        self._count += 1
        record = Reconfiguration(self._count, cause, *times, moves=moves)
        self._open.append(_Open(record, tags))
        finished = [done for site in {pair[0] for pair in tags} - set(connected) for done in self.lose(site)]
        return record, finished

    def confirm(self, pair: Pair, tag: str, at: float) -> list[Reconfiguration]:
        """The switch has the pair on the tunnel of this tag. Older ones that wanted it elsewhere are superseded."""
        matching = [entry for entry in self._open if entry.waiting.get(pair) == tag]
        if not matching:
            return []
        for entry in self._open[: self._open.index(matching[0])]:
            if entry.waiting.pop(pair, None):
                entry.record = replace(entry.record, superseded=(*entry.record.superseded, pair))
        del matching[0].waiting[pair]
        matching[0].last_confirmed_at = at
        return self._take_finished()

    def correct_cause(self, wrong: str, right: str) -> None:
        """Those on their way have another cause than it seemed."""
        for entry in self._open:
            if entry.record.cause == wrong:
                entry.record = replace(entry.record, cause=right)

    def lose(self, site: str) -> list[Reconfiguration]:
        """The switch of a site is gone, or refuses: what it has not confirmed, it will not."""
        for entry in self._open:
            lost = [pair for pair in entry.waiting if pair[0] == site]
            for pair in lost:
                del entry.waiting[pair]
            if lost:
                entry.record = replace(entry.record, lost=(*entry.record.lost, site))
        return self._take_finished()

    def _take_finished(self) -> list[Reconfiguration]:
        finished = [entry for entry in self._open if not entry.waiting]
        self._open = [entry for entry in self._open if entry.waiting]
        return [
            replace(entry.record, installed_at=None if entry.record.lost else entry.last_confirmed_at)
            for entry in finished
        ]
