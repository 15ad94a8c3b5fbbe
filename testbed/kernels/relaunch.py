"""The one way in for verbs: chooses the kernel, says so, and has the same command carried out there if it is another.

elsewhere = relaunch_if_needed(kernel, needs_of(wan), writable=[folder], extra=["--out", str(folder)])
if elsewhere is not None:
    raise typer.Exit(elsewhere)
...  # here: on this kernel
"""

from __future__ import annotations

import compileall
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from testbed.emulation import hostsettings, state
from testbed.emulation.plan import new_run_id
from testbed.emulation.processes import RUN_MARK
from testbed.kernels import images, memory
from testbed.kernels.boot import Guest, Place
from testbed.kernels.channel import Job
from testbed.kernels.choosing import MODES, Choice, Kernel, Needs, Offer, choose, lacking
from testbed.kernels.inside import is_inside
from testbed.progress import Reporter

log = logging.getLogger(__name__)

PACKAGES = ("topologies", "controller", "workers", "testbed")
ROOT = Path(__file__).resolve().parents[2]
DEFAULT_MEMORY_BYTES = 4 * 2**30
LOG_NAME = "kernel.log"


@dataclass(frozen=True)
class Attendant:
    """Who deals with what comes from a kernel besides output: `hear` gets every message, None leaves them to us.

    `lines` are for serial lines that the command inside opens itself; see `Guest`.
    """

    hear: Callable[[dict[str, Any]], None] | None = None
    lines: Sequence[int] = ()


def relaunch_if_needed(
    asked: Kernel,
    needs: Needs,
    *,
    writable: Sequence[Path],
    extra: Sequence[str] = (),
    command: Sequence[str] | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    reporter: Reporter | None = None,
    log_folder: Path | None = None,
) -> int | None:
    """None if the command is to go on here; else it has been carried out on another kernel, and this is its exit code.

    `command` is by default this very command of `ringroad`; `extra` are options that it is given besides. `writable`
    are folders, which must exist, that it may write to. Ctrl-C is passed on. KernelError or another RingroadError
    if the kernel cannot be had, or fails.
    """
    choice = other_kernel(asked, needs)
    if choice is None:
        return None
    return carry_out(
        choice,
        command or this_command(extra),
        writable=writable,
        memory_bytes=memory_bytes,
        reporter=reporter,
        log_folder=log_folder,
    )


def other_kernel(asked: Kernel, needs: Needs) -> Choice | None:
    """Says which kernel is taken, and why; None if that is the one that this process runs on."""
    if is_inside():
        return None
    choice = choice_here(asked, needs)
    announce(choice, asked)
    return None if choice.kernel is Kernel.NATIVE else choice


def choice_here(asked: Kernel, needs: Needs) -> Choice:
    """The kernel that a command would run on, on this machine. RingroadError if it was asked for and is not there."""
    from testbed.emulation.capabilities import detect

    found = detect()
    offer = Offer(found.netem, found.congestion_controls)
    if asked is Kernel.NATIVE or (asked is Kernel.AUTO and not lacking(needs, offer)):
        return choose(asked, needs, offer)
    others = {kernel.value: images.why_not(kernel) for kernel in (Kernel.UML, Kernel.EXACT)}
    return choose(asked, needs, replace(offer, **others))


def announce(choice: Choice, asked: Kernel) -> None:
    """Say what was chosen: always where there was a choice to make that matters."""
    if choice.missing:
        log.warning("kernel: %s", choice)
    elif choice.kernel is not Kernel.NATIVE or asked is not Kernel.AUTO:
        log.info("kernel: %s", choice)


def this_command(extra: Sequence[str] = ()) -> list[str]:
    """The command that this process is, as it would be given again, with `extra` options after its verb."""
    verb, *arguments = sys.argv[1:]
    return [sys.executable, "-m", "testbed.cli", verb, *extra, *arguments]


def carry_out(
    choice: Choice,
    command: Sequence[str],
    *,
    writable: Sequence[Path],
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    reporter: Reporter | None = None,
    log_folder: Path | None = None,
    seed: int | None = None,
    attend: Callable[[str, Path], AbstractContextManager[Attendant]] | None = None,
) -> int:
    """Boot the chosen kernel, run the command in it, and return its exit code; see `relaunch_if_needed`.

    In virtual time all chance in there is drawn from `seed`. `attend` is entered with the run id and the state folder
    before the kernel is booted, and left when it is gone.
    """
    image = images.image(choice.kernel, seed)
    memory.check(memory_bytes)
    compile_ahead()
    state.make_state_root()
    run_id = new_run_id(state.owners())
    folder = state.make_state_folder(run_id)
    try:
        place = Place(run_id, folder, folder / LOG_NAME)
        job = job_of(image, choice, command, writable, run_id)
        with (
            attend(run_id, folder) if attend is not None else nullcontext(Attendant()) as attendant,
            hostsettings.many_mappings(run_id) as said,
        ):
            if said:
                log.info("%s", said)
            on_clocks = reporter.clocks if reporter is not None else lambda *_: None
            hear = attendant.hear if attendant.hear is not None else lambda message: _relay(message, reporter)
            guest = Guest(image, job, place, hear, on_clocks, attendant.lines)
            started_at = time.monotonic()
            status = guest.run(memory_bytes)
            _say_clocks(image, guest, time.monotonic() - started_at)
            return status
    finally:
        _keep_log(folder / LOG_NAME, log_folder)
        state.remove_state_folder(folder)


def job_of(image: images.Image, choice: Choice, command: Sequence[str], writable: Sequence[Path], run_id: str) -> Job:
    """What the kernel is booted for: the command in this folder, with this environment."""
    environment = {name: value for name, value in os.environ.items() if name != RUN_MARK}
    path = environment.get("PYTHONPATH")
    if image.virtual_time:
        environment |= {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)
    return Job(
        command=tuple(map(str, command)),
        folder=str(Path.cwd()),
        environment=environment,
        writable=tuple(str(each.resolve()) for each in writable),
        kernel=choice.kernel.value,
        version=image.version,
        why=choice.why,
        virtual_time=image.virtual_time,
        modules=str(image.modules) if image.modules is not None else None,
        run_id=run_id,
        pid=os.getpid(),
    )


def compile_ahead() -> None:
    """Byte code of our own modules: a kernel that can write nothing would make it again for every process."""
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=2, workers=1)


def _keep_log(log_file: Path, log_folder: Path | None) -> None:
    """Beside the other logs of the run, if there are any."""
    if log_folder is not None and log_folder.is_dir() and log_file.exists():
        with suppress(OSError):
            shutil.copyfile(log_file, log_folder / LOG_NAME)


def _relay(message: dict[str, Any], reporter: Reporter | None) -> None:
    if message["event"] != "progress" or reporter is None:
        return
    kind, value = message["kind"], message["value"]
    handlers: dict[str, Callable[[], None]] = {
        "keep_in": lambda: reporter.keep_in(Path(value)),
        "begin": lambda: reporter.begin(value),
        "phase": lambda: reporter.phase(value),
        "advance": reporter.advance,
    }
    if kind in handlers:
        handlers[kind]()


def _say_clocks(image: images.Image, guest: Guest, wall_s: float) -> None:
    virtual_s = guest.stillness.virtual_s()
    if virtual_s is not None:
        log.info("%s: %.1f s of virtual time took %.0f s", MODES[image.kernel], virtual_s, wall_s)
