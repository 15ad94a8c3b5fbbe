"""A live testbed in a user-mode kernel, as its machine sees it: the same control socket, and the dashboard beside it.

Boots the kernel, has the same command carried out in there, and passes every connection on to it. It holds the
machine's lock as a testbed on the machine's own kernel does: one is up at a time, wherever.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from testbed.emulation.processes import Ledger, Process, ProcessDied, Watch
from testbed.emulation.state import MachineLock
from testbed.kernels import memory, visit
from testbed.kernels.choosing import Choice
from testbed.kernels.relaunch import Attendant, carry_out
from testbed.kernels.switchboard import Switchboard
from testbed.live.client import Client
from testbed.live.daemon import LiveSettings
from testbed.live.gate import CONTROL, FAILED, LIVE, PROGRAMS
from testbed.live.protocol import SOCKET, STARTING
from testbed.live.running import Running
from testbed.live.showing import DashboardSettings, start_dashboard
from topologies.errors import RingroadError

log = logging.getLogger(__name__)

UP = "up"
"""The message that the kernel has booted, and the command starts."""


def run_elsewhere(
    settings: LiveSettings, choice: Choice, command: Sequence[str], on_ready: Callable[[Running], None]
) -> tuple[int, str]:
    """Until it has been taken down; the exit code of the command inside, and why if it has failed, which it has told.

    `on_ready` is called once it is up. Signals are passed on. KernelError if the kernel dies, RingroadError where it
    cannot be had.
    """
    workers, failures = settings.workers, list[str]()
    code = carry_out(
        choice,
        command,
        writable=[],
        memory_bytes=memory.memory_for(len(settings.wan.dcs), workers.size_bytes if workers else 0),
        attend=partial(_attended, settings, choice, on_ready, failures),
    )
    return code, failures[-1] if failures else ""


@contextmanager
def _attended(
    settings: LiveSettings,
    choice: Choice,
    on_ready: Callable[[Running], None],
    failures: list[str],
    run_id: str,
    folder: Path,
) -> Iterator[Attendant]:
    """Opens what is to be opened once the testbed is up; all of it is closed when its kernel is gone."""
    with ExitStack() as stack:
        lock = MachineLock()
        lock.take(run_id)
        stack.callback(lock.release)
        (folder / STARTING).touch(0o600)
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        board = Switchboard(ours.fileno())
        stack.callback(board.close)

        def hear(message: dict[str, Any]) -> None:
            if message["event"] == UP:
                log.info("the user-mode kernel is up; the testbed comes up in it")
            elif message["event"] == FAILED:
                failures.append(message["why"])
            elif message["event"] == LIVE:
                board.listen(folder / visit.SOCKET, PROGRAMS)
                board.listen(folder / SOCKET, CONTROL)
                board.start()
                address = None if settings.dashboard is None else _show(run_id, folder, settings.dashboard, stack)
                on_ready(
                    Running(
                        settings.wan.name, run_id, os.getpid(), folder / SOCKET, folder, address, choice.kernel.value
                    )
                )

        yield Attendant(hear, [theirs.detach()])


def _show(run_id: str, folder: Path, settings: DashboardSettings, stack: ExitStack) -> str:
    """Start the dashboard here, where there is a browser, and tell the testbed its address, or that it has died."""
    ledger = Ledger(run_id, folder)
    stack.callback(ledger.end_all)

    def start(*arguments: Any, **options: Any) -> Process:
        return ledger.start(*arguments, **options)[0]

    def tell(address: str | None) -> None:
        with Client(folder / SOCKET) as testbed:
            testbed.change("dashboard", address=address)

    def gone(_: ProcessDied) -> None:
        with suppress(RingroadError):  # As everything is when the testbed ends.
            tell(None)

    process, address = start_dashboard(start, folder / SOCKET, folder, settings)
    stack.enter_context(Watch([process], on_death=gone))
    tell(address)
    return address
