"""Inside a user-mode kernel: lets the machine that booted it reach the live testbed; its other end is `elsewhere`.

A Unix socket ends with its kernel. So connections come over a serial line, and are made to the control socket here, or
to a program that is started for them.
"""

from __future__ import annotations

import os
import socket
import termios
import tty
from pathlib import Path

from testbed.kernels import programs
from testbed.kernels.channel import CONNECTIONS
from testbed.kernels.inside import Relay
from testbed.kernels.switchboard import Switchboard
from topologies.errors import RingroadError

CONTROL, PROGRAMS = "control", "programs"
"""What may be asked for over the line."""

LIVE = "live"
"""The message that all is open from now on."""

FAILED = "failed"
"""The message that the testbed ends by itself, and why."""

WHY_LETTERS = 500
"""Of six bytes each at most, as JSON: a message holds 3500."""


class Gate:
    """Open from `open` until the context ends; what has been said by then still arrives."""

    def __enter__(self) -> Gate:
        self._line = os.open(CONNECTIONS, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        tty.setraw(self._line)
        self._board: Switchboard | None = None
        return self

    def open(self, control: Path) -> None:
        """`control` is the control socket; whoever booted this kernel is told."""

        def connected() -> socket.socket:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(os.fspath(control))
            return connection

        self._board = Switchboard(self._line, {CONTROL: connected, PROGRAMS: programs.connect})
        self._board.start()
        Relay().tell(LIVE)

    def tell_failure(self, error: RingroadError) -> None:
        """Whoever booted this kernel is told why the testbed has ended by itself."""
        Relay().tell(FAILED, why=error.message[:WHY_LETTERS])

    def __exit__(self, *_: object) -> None:
        if self._board is not None:
            self._board.close()
            termios.tcdrain(self._line)
        os.close(self._line)
