"""Starts the launcher of the workers beside a testbed, which ends it; and says whose fault it is if that goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.bed import Testbed
from testbed.emulation.processes import Process, ProcessDied, Watch
from topologies.errors import RingroadError, refused_by_system
from topologies.wire import listen
from workers.client import WorkersClient, launcher_command


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


@contextmanager
def blaming(bed: Testbed, process: Process, socket: Path) -> Iterator[None]:
    """What goes wrong because a process died or was stopped is blamed on it, and nothing waits for a dead one."""

    def wake(_: ProcessDied) -> None:
        with suppress(RingroadError), WorkersClient(socket) as workers:
            workers.stop()

    with Watch([*bed.processes(), process], on_death=wake) as watch:
        try:
            yield
        except (RingroadError, OSError) as error:
            if isinstance(error, OSError):
                error = refused_by_system(error, "the run cannot go on")
            raise (watch.dead() or watch.stopped() or error) from error
        watch.check()
