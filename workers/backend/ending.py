"""How a group ends on one rank: in order, with an error, or with the interpreter, whether or not the script says so.

No thread may be in gloo, nor let go of what is gloo's, while the interpreter ends: C++ would abort the process, and a
rank whose work was done would count as dead.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref

from torch.distributed import ProcessGroupGloo

from workers.backend.deathwatch import DeathWatch, nobody_caught_it
from workers.backend.engine import END_S, Engine
from workers.backend.small import Dissemination
from workers.breaking import break_connections

LINGER_S = 2.0
"""What is on its way when a rank leaves goes on only as long as its DC is there: bounds the wait for it."""


class Ending:
    """Of one group. The watch comes a little later than the rest, which it may have to break."""

    def __init__(self, engine: Engine, small: Dissemination, *groups: ProcessGroupGloo) -> None:
        self._engine, self._small, self._groups = engine, small, groups

    def watched_by(self, watch: DeathWatch) -> None:
        """The group is complete, and ends with the interpreter at the latest."""
        self._watch = watch
        _endings.add(self)

    def break_off(self) -> None:
        """Whoever waits in the group, here or at a peer, has an error now. Any thread; idempotent."""
        self._small.break_off()
        for group in self._groups:
            break_connections(group)

    def give_up(self, error: BaseException) -> None:
        """Let go of what still waits. What gloo does not let go, the end of its group would wait for: it gets none."""
        if self._engine.give_up(error):
            for group in self._groups:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))

    def shut_down(self) -> None:
        """Block until what is queued has run and, for a little, until what was sent has arrived. Idempotent.

        At an end with an error nothing more runs.
        """
        if nobody_caught_it():
            self._watch.close()
            self.break_off()
            self._engine.end(END_S)
            return
        self._engine.end()
        if not self._watch.knows_of_a_death:
            self._small.linger(LINGER_S)
        self._watch.close()

    def end_with_interpreter(self) -> None:
        """Shut down, if the script has not; a thread of the script that still waits here gets an error."""
        self.shut_down()
        waiting = self._engine.waiting
        if waiting.is_busy:
            self.break_off()
        waiting.end(END_S)


_endings: weakref.WeakSet[Ending] = weakref.WeakSet()
"""Of this process."""


@atexit.register
def _end_all() -> None:
    for ending in list(_endings):
        ending.end_with_interpreter()


os.register_at_fork(after_in_child=_endings.clear)
"""A child has none of the threads, and does not speak for its parent."""
