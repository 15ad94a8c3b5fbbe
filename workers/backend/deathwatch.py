"""Tells a rank at once when another one dies: a connection between every two, silent for as long as both live.

The kernel closes the connections of a process that ends, however it ends; gloo notices that only where it waits for
that very rank. A rank that leaves in order says so first. A path that stalls closes nothing, so nobody is taken for
dead who is only late.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from topologies.errors import RingroadError
from workers.backend.automatic import VARIABLE
from workers.backend.meeting import Peers

SETTLE_S = 1.0
"""From a death until everything that waits is ended: what the dead one had sent before may still be on its way."""

NEWS_S = 0.5
"""How long an error waits for the news that explains it."""

LET_GO_S = 0.5
"""How long gloo has to end what waits: a message whose sending met the death is never ended, and has to be left."""

_FAREWELL_BYTES = 64


class RankDied(RingroadError, RuntimeError):
    """A collective cannot end because a rank of its group has died, or left with an error. Names rank and DC."""


class DeathWatch:
    """Of one group on one rank. `ranks` are the group's, as global ranks, `names` say where each is.

    `peers` are connections for this alone. SETTLE_S after a death `end_waiting` ends what waits; a while later
    `give_up` gets the error for what gloo has not let go.
    """

    def __init__(
        self,
        peers: Peers,
        names: Mapping[int, str],
        ranks: Sequence[int],
        end_waiting: Callable[[], None],
        give_up: Callable[[BaseException], None],
    ) -> None:
        self._peers, self._names, self._ranks = peers, names, ranks
        self._end_waiting, self._give_up = end_waiting, give_up
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._cause: str | None = None
        self._culprit: int | None = None
        self._left: set[int] = set()
        self._steps: list[tuple[float, Callable[[], None]]] = []
        """What is to be done after a death, and when."""
        self._is_closed = False
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, lambda: None)
        for rank, peer in peers.items():
            peer.setblocking(False)
            self._selector.register(peer, selectors.EVENT_READ, partial(self._listen, rank, peer, bytearray()))
        _watches.add(self)
        self._thread = threading.Thread(target=self._run, name="ring backend: watch", daemon=True)
        self._thread.start()

    def explained(self, error: BaseException) -> BaseException:
        """What to raise instead of an error: who has died, if somebody has. Blocks for NEWS_S at most."""
        if not isinstance(error, RuntimeError) or isinstance(error, RingroadError):
            return error
        self._news.wait(NEWS_S)
        with self._lock:
            cause = self._cause
            if cause is None and self._left and "imed out" not in str(error):
                cause = f"{', '.join(self._name(rank) for rank in sorted(self._left))} left before"
        if cause is None:
            return error
        died = RankDied(f"{cause}; seen as: {str(error).splitlines()[0][:200]}")
        died.__cause__ = error
        return died

    @property
    def knows_of_a_death(self) -> bool:
        """Whether a rank of the group has died, or left with an error."""
        return self._culprit is not None

    def close(self) -> None:
        """Leave: the others are told in what way, and not to take it for a death. Idempotent.

        The thread ends before: it may be the last to let go of gloo's groups, and if the interpreter ends while a
        thread does that, C++ has it terminate the process.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            farewell = b"bye\n"
            if self._culprit is not None:
                farewell = b"lost %d\n" % self._culprit
            elif nobody_caught_it():
                farewell = b"failed\n"
            for peer in self._peers.values():
                with suppress(OSError):
                    peer.send(farewell, socket.MSG_DONTWAIT)
        self._wakes.close()
        if self._thread is not threading.current_thread():
            self._thread.join(SETTLE_S)

    def forget(self) -> None:
        """In a forked child, whose copies of the connections are closed: it does not speak for its parent."""
        self._is_closed = True
        for inherited in (self._woken, self._wakes):
            inherited.close()

    # Watching.

    def _run(self) -> None:
        while not self._is_closed:
            wait_s = max(0.0, self._steps[0][0] - time.monotonic()) if self._steps else None
            for key, _ in self._selector.select(wait_s):
                key.data()
            while self._steps and self._steps[0][0] <= time.monotonic() and not self._is_closed:
                self._steps.pop(0)[1]()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        self._end_waiting = self._give_up = _nothing  # they hold the group, which holds this

    def _listen(self, rank: int, peer: socket.socket, said: bytearray) -> None:
        received = _received(peer, _FAREWELL_BYTES)
        if received is None:
            return
        said += received
        if received and len(said) <= _FAREWELL_BYTES:
            return
        self._selector.unregister(peer)
        self._understand(rank, bytes(said).strip().decode(errors="replace"))

    def _understand(self, rank: int, farewell: str) -> None:
        """The connection to that rank has ended; this is what it said before."""
        word, _, number = farewell.partition(" ")
        if word == "bye":
            with self._lock:
                self._left.add(rank)
            return
        culprit = int(number) if word == "lost" and number.isdigit() and int(number) < len(self._ranks) else rank
        how = "ended with an error" if word == "failed" else "has died"
        with self._lock:
            if self._cause is None and culprit in self._peers:
                self._cause, self._culprit = f"{self._name(culprit)} {how}", culprit
        self._news.set()
        if not self._steps:
            now = time.monotonic()
            self._steps = [(now + SETTLE_S, self._end_waiting), (now + SETTLE_S + LET_GO_S, self._leave_the_rest)]

    def _leave_the_rest(self) -> None:
        self._give_up(RankDied(f"{self._cause}; gloo still waits for it"))

    def _name(self, rank: int) -> str:
        name = self._names.get(rank)
        return f"rank {self._ranks[rank]} ({name})" if name else f"rank {self._ranks[rank]}"


def nobody_caught_it() -> bool:
    """Whether the interpreter ends because of an exception."""
    return hasattr(sys, "last_value")


def _nothing(*_: object) -> None:
    pass


_watches: weakref.WeakSet[DeathWatch] = weakref.WeakSet()
"""Of this process, for its children to forget."""


def _forget_all() -> None:
    for watch in list(_watches):
        watch.forget()


os.register_at_fork(after_in_child=_forget_all)


def _received(connection: socket.socket, most: int) -> bytes | None:
    """What has come; empty at the end of the connection, None if nothing has."""
    try:
        return connection.recv(most)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def own_name(rank: int) -> str:
    """The DC, where the environment says it; else the machine."""
    with suppress(ValueError, TypeError, KeyError, IndexError):
        return str(json.loads(os.environ[VARIABLE])["ranks"][rank]["dc"])
    return socket.gethostname()
