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
from functools import lru_cache, partial

import torch
from torch.distributed import ProcessGroupGloo, Work

LETTER_BYTES = 16 * 1024
"""The largest. So much memory is kept ready for each rank that writes."""

HEAD_BYTES = 8
"""At the begin of a letter: how long it is, which gloo would compare if receives were not posted ahead."""

PAPER_BYTES = HEAD_BYTES + LETTER_BYTES

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

    def send(self, data: torch.Tensor, to: int, tag: int) -> Callable[[], None]:
        """A letter under a tag that was reserved; its text is copied now. What is returned blocks until it has left."""
        text = data.detach().reshape(-1).view(torch.uint8)
        letter = torch.cat([_head(text.numel()), text])
        work = self._group.send([letter], to, tag)

        return partial(_left, work, letter)

    def reserve(self, to: int) -> int:
        """The tag under which the next letter to that rank is sent, whenever that is."""
        return self._tag(next(self._sent[to]))

    def receive(self, into: torch.Tensor, source: int) -> Callable[[], None]:
        """The next letter from that rank, of as many bytes as `into` (contiguous) has, is for `into`.

        What is returned blocks until it is there. RuntimeError if it has another length.
        """
        with self._lock:
            number = self._expected[source]
            self._expected[source] += 1
            paper, work = self._posted.pop(source, None) or self._post(source, number)
        into = into.view(-1).view(torch.uint8)

        def open_it() -> None:
            work.wait()
            length = into.numel()
            if not torch.equal(paper[:HEAD_BYTES], _head(length)):
                raise RuntimeError(f"rank {source} has sent another size than the {length} bytes expected here")
            into.copy_(paper[HEAD_BYTES : HEAD_BYTES + length])
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
        paper = self._spare.pop() if self._spare else torch.empty(PAPER_BYTES, dtype=torch.uint8, device="cpu")
        return paper, self._group.recv([paper], source, self._tag(number))


@lru_cache(maxsize=256)
def _head(length: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(length.to_bytes(HEAD_BYTES, "little")), dtype=torch.uint8)


def _left(work: Work, _: torch.Tensor) -> None:
    """Keeps the letter until it has."""
    work.wait()
