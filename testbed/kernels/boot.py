"""Boots a user-mode kernel for one command, streams what that writes, passes signals in and the exit status out.

The kernel is an ordinary process in a session and a process namespace of its own. It dies with the process that booted
it, and is in the ledger of its run, so that a clean-up finds it in any case.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from testbed.emulation.processes import Ledger, Process, end, end_of_log
from testbed.emulation.signals import deferred_signals
from testbed.kernels.channel import Job, Lines, encode
from testbed.kernels.images import Image
from testbed.kernels.stillness import Stillness
from topologies.errors import RingroadError

BOOT_S = 90.0
"""Until the command starts; an idle machine takes 3 to 5 s."""

ENDING_S = 90.0
"""After Ctrl-C, for the command to clean up."""

ALONE = (
    *("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child=KILL"),
    *("sh", "-c"),
)
"""A process namespace, which dies with the process that made it and takes along all that the kernel has started."""

IN_VIRTUAL_TIME = '"$@"; exit $?'
IN_REAL_TIME = '{ renice -n -15 -p $$; echo -15 >/proc/self/autogroup; } >/dev/null 2>&1; "$@"; exit $?'
"""The shell is the first process: the kernel ends itself by signals, which that of a namespace does not get.

In real time it goes before what else the machine has to do, where that is allowed: a queue whose timer fires late has
lost what its link might have carried meanwhile. A real-time priority was tried: round trips and rates were far off.
"""

LOOK_EVERY_S = 1.0
AWAY_S = 5.0
"""Longer between two looks, and it was this process that stood still: what the kernel has said meanwhile is unread."""
MORE_LINES = 3
"""The first serial line that a caller may have for itself."""

NAME = "the user-mode kernel"


class KernelError(RingroadError):
    """The user-mode kernel did not do what it was booted for."""

    exit_code = 4

    def __init__(self, message: str, log: Path, remedy: str = "") -> None:
        quoted = "".join(f"\n    {line}" for line in end_of_log(log))
        super().__init__(f"{message}; the end of its console:{quoted}" if quoted else message, remedy)


@dataclass(frozen=True)
class Place:
    """Where a run keeps what belongs to its kernel. `state` is gone at the end, `log` with it."""

    run_id: str
    state: Path
    log: Path


@dataclass
class Ends:
    """Our ends of the lines into the kernel, by file descriptor."""

    console: int
    stdout: int
    stderr: int
    control: socket.socket
    theirs: list[int] = field(default_factory=list)


class Guest:
    """A command inside a user-mode kernel. `on_message` gets every message that is not about the kernel itself.

    `on_clocks` is told virtual and wall seconds since the boot, every second or so, if the kernel is in virtual time.
    `lines` are file descriptors, closed here once the kernel has them: of its serial lines from MORE_LINES on.
    """

    def __init__(
        self,
        image: Image,
        job: Job,
        place: Place,
        on_message: Callable[[dict[str, Any]], None],
        on_clocks: Callable[[float, float], None],
        lines: Sequence[int] = (),
    ) -> None:
        self._image, self._job, self._place, self._extra = image, job, place, list(lines)
        self._on_message, self._on_clocks = on_message, on_clocks
        self._status: int | None = None
        self._up_at: float | None = None
        self._kill_at: float | None = None
        self._received = Lines()
        self.stillness = Stillness.of(image, place.state)

    def run(self, memory_bytes: int) -> int:
        """Boot it, wait for the command's end, and return its exit status. KernelError if the kernel fails it."""
        ledger = Ledger(self._place.run_id, self._place.state)
        with ExitStack() as stack:
            ends = _lines(stack, self._extra)
            self._log = stack.enter_context(self._place.log.open("ab", buffering=0))
            self._control = ends.control
            process = self._start(ledger, ends, memory_bytes)
            try:
                self._serve(process, ends)
            finally:
                with deferred_signals():
                    end([process.pid])
                    ledger.end_all()
        return self._outcome(process)

    def _start(self, ledger: Ledger, ends: Ends, memory_bytes: int) -> Process:
        console, stdout, stderr, control, *more = ends.theirs
        init = _write_init(self._place.state, self._job)
        arguments = [
            *(*ALONE, IN_VIRTUAL_TIME if self._image.virtual_time else IN_REAL_TIME, "sh"),
            str(self._image.binary),
            f"mem={memory_bytes // 2**20}M",
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"),
            *("con=null", f"con0=null,fd:{console}", "ssl=null"),
            *(f"ssl0=null,fd:{stdout}", f"ssl1=null,fd:{stderr}", f"ssl2=fd:{control}"),
            *(f"ssl{number}=fd:{line}" for number, line in enumerate(more, MORE_LINES)),
            *(f"uml_dir={self._place.state}/", "umid=kernel"),
            *self._image.arguments,
            *self.stillness.arguments,
        ]
        environment = {name: value for name, value in os.environ.items() if name not in ("TMP", "TEMP", "TMPDIR")}
        if self._image.preload is not None:
            environment["LD_PRELOAD"] = str(self._image.preload)
        self._started_at = time.monotonic()
        process, _ = ledger.start(
            NAME, arguments, self._place.log, stdout=console, stderr=console, pass_fds=ends.theirs, env=environment
        )
        for descriptor in ends.theirs:
            os.close(descriptor)
        ends.theirs.clear()
        return process

    def _serve(self, process: Process, ends: Ends) -> None:
        """Until the kernel has ended. The first Ctrl-C is passed in; the command then ends by itself."""
        selector = selectors.DefaultSelector()
        ended = os.pidfd_open(process.pid)
        sinks: dict[int, Callable[[bytes], None]] = {
            ends.console: lambda piece: _write_all(self._log, piece),
            ends.stdout: lambda piece: _show(sys.stdout, piece),
            ends.stderr: lambda piece: _show(sys.stderr, piece),
            ends.control.fileno(): self._hear,
        }
        try:
            for source in (ended, *sinks):
                selector.register(source, selectors.EVENT_READ)
            looked_at = time.monotonic()
            while selector.get_map().get(ended) is not None:
                try:
                    for key, _ in selector.select(LOOK_EVERY_S):
                        self._serve_one(key.fd, ended, sinks, selector)
                    if time.monotonic() - looked_at > AWAY_S:
                        self.stillness.heard()
                    looked_at = time.monotonic()
                    self._look()
                except KeyboardInterrupt:
                    self._kill_at = time.monotonic() + ENDING_S
                    self._send("signal", number=int(signal.SIGINT))
            for source, sink in sinks.items():
                while piece := _read(source):
                    sink(piece)
        finally:
            selector.close()
            os.close(ended)

    def _serve_one(self, source: int, ended: int, sinks: dict[int, Any], selector: selectors.BaseSelector) -> None:
        if source == ended:
            selector.unregister(ended)
        elif piece := _read(source):
            sinks[source](piece)
        else:
            selector.unregister(source)

    def _hear(self, piece: bytes) -> None:
        for message in self._received.messages(piece):
            event = message["event"]
            self.stillness.heard()
            if event == "up":
                self._up_at = time.monotonic()
                self._on_message(message)
            elif event == "exit":
                self._status = message["status"]
            elif event != "alive":
                self._on_message(message)

    def _look(self) -> None:
        """Whether it still moves. KernelError if it does not, and what stands in the way."""
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            raise KernelError(f"the command did not end within {ENDING_S:g} s of Ctrl-C", self._place.log)
        if self._up_at is None and now - self._started_at > BOOT_S:
            raise KernelError(
                f"{NAME} did not come up within {BOOT_S:g} s", self._place.log, "is the machine overloaded?"
            )
        if (virtual_s := self.stillness.virtual_s()) is not None:
            self._on_clocks(virtual_s, now - self._started_at)
        if self._up_at is not None and (still := self.stillness.look(now)):
            raise KernelError(still, self._place.log, "results so far are kept")

    def _outcome(self, process: Process) -> int:
        if self._status is None:
            if self._up_at is None:
                raise KernelError(f"{NAME} {self._image.version} did not boot", self._place.log, "ringroad doctor")
            raise KernelError(f"{NAME} (pid {process.pid}) has died", self._place.log, "results so far are kept")
        return self._status

    def _send(self, event: str, **values: Any) -> None:
        with suppress(OSError):
            self._control.send(encode(event, **values), socket.MSG_DONTWAIT)


def _lines(stack: ExitStack, more: Sequence[int]) -> Ends:
    """Pipes for what comes out, a socket pair for messages; ours are closed with `stack`. `more` lines are theirs."""
    pipes = [os.pipe() for _ in range(3)]
    ours, theirs = socket.socketpair()
    stack.callback(ours.close)
    ends = Ends(*(read for read, _ in pipes), ours, [*(write for _, write in pipes), theirs.detach(), *more])
    for read, _ in pipes:
        os.set_blocking(read, False)
        stack.callback(os.close, read)
    ours.setblocking(False)
    stack.callback(lambda: [os.close(each) for each in ends.theirs])
    return ends


def _write_init(state: Path, job: Job) -> Path:
    """The first program of the kernel: its path is without spaces, and it knows where the job is."""
    job_file, init = state / "job.json", state / "init"
    job_file.write_text(job.encode())
    root = Path(__file__).resolve().parents[2]
    init.write_text(
        f"#!{sys.executable}\n"
        f"import sys\nsys.path.insert(0, {str(root)!r})\nsys.dont_write_bytecode = True\n"
        f"from testbed.kernels.guest import main\nmain({str(job_file)!r})\n"
    )
    init.chmod(0o700)
    return init


def _read(source: int) -> bytes:
    try:
        return os.read(source, 65536)
    except (BlockingIOError, ConnectionResetError):
        return b""


def _show(stream: Any, piece: bytes) -> None:
    """On a stream of ours, as it came; through its text layer, which a progress bar may have replaced."""
    stream.write(piece.decode(errors="replace"))
    stream.flush()


def _write_all(file: BinaryIO, piece: bytes) -> None:
    with suppress(OSError):  # A full disk: what fails in there for want of space says so itself.
        file.write(piece)
