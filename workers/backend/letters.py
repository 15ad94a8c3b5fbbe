"""Small messages that leave at once, because their receives are posted before anybody asks for them.

gloo sends nothing before the receiver has said that it is ready: half a round trip, which here passes during the
collective before. Between two ranks letters are counted, in the order in which both expect them; which collective one
belongs to does not matter.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

import torch
from torch.distributed import ProcessGroupGloo, Work

LETTER_BYTES = 16 * 1024
"""The largest. So much memory is kept ready for each rank that writes."""

Tag = Callable[[int], int]
"""Of a letter's number, its tag of gloo's."""


class Letters:
    """Those of one rank of `group`. Safe from any thread, as long as both sides reserve in the same order."""

    def __init__(self, group: ProcessGroupGloo, tag: Tag) -> None:
        self._group, self._tag = group, tag
        self._sent: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)
        self._lock = threading.Lock()
        self._expected: defaultdict[int, int] = defaultdict(int)
        self._posted: dict[int, tuple[torch.Tensor, Work]] = {}
        """By rank, of the letter that it is to write next: where that will lie, gloo's receive."""
        self._spare: list[torch.Tensor] = []

    def reserve(self, to: int) -> int:
        """The tag under which the next letter to that rank is sent, whenever that is."""
        return self._tag(next(self._sent[to]))

    def receive(self, into: torch.Tensor, source: int) -> Callable[[], None]:
        """The next letter from that rank, of as many bytes as `into` (contiguous) has, is for `into`.

        What is returned blocks until it is there.
        """
        with self._lock:
            number = self._expected[source]
            self._expected[source] += 1
            paper, work = self._posted.pop(source, None) or self._post(source, number)
        into = into.view(-1).view(torch.uint8)

        def open_it() -> None:
            work.wait()
            into.copy_(paper[: into.numel()])
            if len(self._spare) < self._group.size():
                self._spare.append(paper)

        return open_it

    def replenish(self) -> None:
        """Post the receive of the next letter of everybody who has written before."""
        with self._lock, suppress(RuntimeError):  # of a peer that is gone: the next collective will say so
            for source, number in self._expected.items():
                if source not in self._posted:
                    self._posted[source] = self._post(source, number)

    def _post(self, source: int, number: int) -> tuple[torch.Tensor, Work]:
        paper = self._spare.pop() if self._spare else torch.empty(LETTER_BYTES, dtype=torch.uint8)
        return paper, self._group.recv([paper], source, self._tag(number))
