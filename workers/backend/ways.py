"""One direction of a connection between two ranks: it moves what it is given in that order, in a thread if need be."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future

from workers.backend.meeting import hang_up

Rest = Callable[[], object]
"""Blocks until it is done. RuntimeError when a peer is gone."""

_Task = tuple[list[memoryview], "Future[None]"]


def nothing() -> None:
    """The rest of what is done."""


def mistake(collective: int, expected: int, size: int, room: int) -> str:
    """What is wrong with a message of that collective and size where another is expected; or nothing."""
    if collective != expected:
        return f"has sent what belongs to another collective: its number {collective}, here number {expected}"
    return "" if size == room else f"has sent another size than the {room} bytes expected here"


class Way:
    """One direction of a connection, and the thread that moves what it is given."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self._rank, self._connection = rank, connection
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._left = 0
        """Tasks that the thread has not ended."""
        self._thread: threading.Thread | None = None

    def give(self, parts: list[memoryview]) -> Rest:
        """Memory to be moved after all that was given before; what is returned blocks until it has been."""
        with self._lock:
            try:
                if not self._left and not (parts := self._begin(parts)):
                    return nothing
                done: Future[None] = Future()
                self._left += 1
                if self._thread is None:
                    thread = threading.Thread(target=self._serve, name="ring backend: moves", daemon=True)
                    thread.start()
                    self._thread = thread
                self._tasks.put((parts, done))
            except BaseException:  # an interrupt, after a part has left: nothing may follow that
                hang_up([self._connection])
                raise
        return done.result

    def close(self) -> None:
        """The thread ends once it has moved what it was given."""
        self._tasks.put(None)

    def _begin(self, parts: list[memoryview]) -> list[memoryview]:
        """Move what can be at once; what is left."""
        return parts

    def _move(self, parts: list[memoryview]) -> None:
        raise NotImplementedError

    def _serve(self) -> None:
        """After one failure the two ranks are no longer at the same point: all that follows fails as well."""
        error = ""
        while (task := self._tasks.get()) is not None:
            parts, done = task
            try:
                if not error:
                    self._move(parts)
            except (OSError, RuntimeError) as failure:
                error = self._explained(failure)
                hang_up([self._connection])
            with self._lock:
                self._left -= not error  # else nothing is begun any more
            if error:  # a new one each time: what is raised holds on to whoever has raised it
                done.set_exception(RuntimeError(error))
            else:
                done.set_result(None)
            del task, parts, done

    def _explained(self, failure: Exception) -> str:
        if isinstance(failure, BlockingIOError):
            return f"timed out: nothing has moved to or from rank {self._rank}"
        if isinstance(failure, OSError):
            return f"the connection to rank {self._rank} is broken: {failure.strerror or failure}"
        return f"rank {self._rank} {failure}"


class Sender(Way):
    """Towards a rank. What the kernel has room for leaves at once."""

    def _begin(self, parts: list[memoryview]) -> list[memoryview]:
        try:
            sent = self._connection.sendmsg(parts, (), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:  # no room; anything else the thread will meet as well
            return parts
        head, text = parts
        if sent < len(head):
            return [head[sent:], text]
        return [text[sent - len(head) :]] if sent < len(head) + len(text) else []

    def _move(self, parts: list[memoryview]) -> None:
        for part in parts:
            self._connection.sendall(part, socket.MSG_NOSIGNAL)
