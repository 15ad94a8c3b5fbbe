"""One forked rank as the launcher holds it: its process, and the socket on which the two talk.

Knows nothing of collectives. The launcher must have one thread when it forks.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterable
from typing import Any

from topologies import wire
from workers.lines import Lines


class Member:
    """Forks in the constructor: the child runs `main(socket)` and exits with what it returns.

    `not_for_child` are sockets of the launcher that the child must not keep open.
    """

    def __init__(self, main: Callable[[socket.socket], int], not_for_child: Iterable[socket.socket]) -> None:
        self.connection, theirs = socket.socketpair()
        self._lines = Lines(self.connection)
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                for other in (self.connection, *not_for_child):
                    other.close()
                status = main(theirs)
            finally:
                os._exit(status)
        theirs.close()
        self.pidfd = os.pidfd_open(self.pid)

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message; nothing happens if the rank has ended, its pidfd tells that."""
        try:
            wire.send(self.connection, message)
        except wire.WireError:
            return

    def heard(self) -> tuple[list[dict[str, Any]], bool]:
        """The messages that have come, without waiting for more, and whether the rank can send no others."""
        return self._lines.read()

    def is_stopped(self) -> bool:
        """Whether somebody has stopped it (SIGSTOP, a debugger): then it is why the others wait."""
        with open(f"/proc/{self.pid}/stat") as stat:  # noqa: PTH123
            return stat.read().rpartition(")")[2].split()[0] in "Tt"

    def kill(self) -> None:
        """SIGKILL: a rank has nothing to save."""
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def end(self) -> str:
        """Wait for the end of the process, close what belongs to it, and say how it ended. Call it once."""
        _, status = os.waitpid(self.pid, 0)
        self.connection.close()
        os.close(self.pidfd)
        if os.WIFSIGNALED(status):
            return f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        return f"exited with status {os.waitstatus_to_exitcode(status)}"
