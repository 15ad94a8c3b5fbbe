"""Starting the workers' launcher beside a testbed, whose process it is and which ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.bed import Testbed
from testbed.emulation.processes import Process
from topologies.wire import listen
from workers.client import launcher_command


@contextmanager
def launcher(bed: Testbed, socket: Path, log_file: Path) -> Iterator[Process]:
    """The process that has imported torch once and forks the workers of every job. The testbed ends it."""
    with listen(socket) as server:
        command = launcher_command(socket, server.fileno())
        process = bed.start("workers' launcher", command, log_file, pass_fds=[server.fileno()])
    try:
        yield process
    finally:
        socket.unlink(missing_ok=True)
