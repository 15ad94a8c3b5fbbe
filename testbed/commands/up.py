"""`ringroad up`: a WAN that stays up, with or without workers, until it is taken down."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.commands import names
from testbed.commands.options import AsJson, KernelOption, ListenOn, TokenFile
from testbed.commands.trace import whole
from testbed.interruption import INTERRUPTED_EXIT_CODE, interruptible
from testbed.kernels.choosing import Kernel
from topologies.errors import InputError, RingroadError, did_you_mean

if TYPE_CHECKING:
    from testbed.kernels.choosing import Choice
    from testbed.live.daemon import LiveSettings
    from testbed.live.operations import Parts
    from testbed.live.running import Running
    from testbed.live.showing import DashboardSettings

log = logging.getLogger(__name__)

ARMS = ("static", "wan", "ccl", "joint")
SOURCES = ("probe", "passive", "feed", "oracle")
PAYLOAD, SOURCE = "1MiB", "feed"


def up(
    wan: Annotated[
        str,
        typer.Argument(
            metavar="WAN", help="A built-in WAN, or a WAN file.", autocompletion=names.wans, show_default=False
        ),
    ],
    arm: Annotated[
        str,
        typer.Option(metavar="ARM", help="static, wan, ccl or joint.", autocompletion=names.one_of(*ARMS)),
    ] = "static",
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Capacities that change: see ringroad trace.", show_default=False)
    ] = None,
    workers: Annotated[bool, typer.Option("--workers", help="With workers: AllGathers without end.")] = False,
    payload: Annotated[str, typer.Option(help="What each DC contributes to one.")] = PAYLOAD,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="One so often.  [default: back to back]", show_default=False)
    ] = None,
    reorder_every: Annotated[int, typer.Option(metavar="N", help="The ring agent's N.")] = 4,
    source: Annotated[str, typer.Option(help="Its bandwidths: probe, passive, feed or oracle.")] = SOURCE,
    t_wan: Annotated[str, typer.Option("--t-wan", metavar="TIME", help="The WAN controller's period.")] = "500ms",
    policy: Annotated[str, typer.Option(help="Its path policy where paths move.")] = "widest",
    seed: Annotated[int, typer.Option(help="Of the trace and of random policies.")] = 1,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="With the dashboard, on 127.0.0.1.")] = False,
    listen: ListenOn = "0",
    token_file: TokenFile = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when it is up; ringroad down ends it.")
    ] = False,
    kernel: KernelOption = Kernel.AUTO,
    as_json: AsJson = False,
) -> None:
    """Bring a WAN up and keep it up: in the foreground until Ctrl-C, or detached. Needs root; one on a machine.

    From any other terminal: status, fail, heal, shape, arm, ring, … (ringroad --help).

    \b
    Examples:
      ringroad up mesh4 --workers --arm joint
      ringroad up six --workers --trace experiments/quickstart.yaml --dashboard --detach
      ringroad up mesh4 --kernel uml      (delay, jitter and loss where this machine's kernel has none)
    """
    from testbed.kernels.inside import is_inside

    check_kernel(kernel)
    _goes_with("--dashboard", dashboard, {"--listen": listen != "0", "--token-file": token_file is not None})
    of_workers = {"--payload": payload != PAYLOAD, "--every": every is not None, "--source": source != SOURCE}
    _goes_with("--workers", workers, of_workers)
    settings = settings_of(
        wan, arm=arm, trace=trace, workers=workers, payload=payload, every=every, reorder_every=reorder_every,
        source=source, t_wan=t_wan, policy=policy, seed=seed,
        dashboard=(listen, token_file) if dashboard and not is_inside() else None,
    )  # fmt: skip
    need_root()
    if is_inside():
        raise typer.Exit(inside(settings))
    choice = kernel_of(kernel, settings)
    raise typer.Exit(
        _detached(settings, choice, as_json)
        if detach
        else bring_up(settings, choice, lambda running: tell(running, as_json))
    )


def need_root() -> None:
    """RingroadError for anybody else."""
    if os.geteuid() != 0:
        raise RingroadError("only root can emulate a network", "run it as root: sudo .venv/bin/ringroad …")


def settings_of(
    wan: str, *, arm: str, trace: str | None, workers: bool, payload: str, every: str | None, reorder_every: int,
    source: str, t_wan: str, policy: str, seed: int, dashboard: tuple[str, Path | None] | None,
) -> LiveSettings:  # fmt: skip
    """Everything that a person gave, checked. InputError says what is wrong with which option."""
    from controller.policies import make_policy
    from controller.settings import ControllerSettings
    from testbed.live.daemon import LiveSettings
    from testbed.live.loop import LoopSettings
    from testbed.live.tracing import read_trace
    from topologies.units import parse_duration_s, parse_size_bytes
    from topologies.wanfile import load_wan

    loaded = load_wan(wan)
    _one_of("--arm", arm, ARMS)
    _one_of("--source", source, SOURCES)
    period_s = _quantity("--t-wan", t_wan, parse_duration_s, 0.01, 86400, "500ms")
    size_bytes = int(_quantity("--payload", payload, parse_size_bytes, 4, _most_bytes(len(loaded.dcs)), "1MiB"))
    if size_bytes % 4:
        raise InputError("a payload is made of whole 32-bit elements", place="--payload", value=payload, remedy="1MiB")
    every_s = None if every is None else _quantity("--every", every, parse_duration_s, 0.001, 86400, "500ms")
    if reorder_every < 0:
        raise InputError("N is a count of collectives", place="--reorder-every", value=reorder_every, remedy="as 4")
    make_policy(policy, ControllerSettings(period_s=period_s))  # Says now what is wrong with it.
    return LiveSettings(
        wan=loaded,
        arm=arm,
        workers=LoopSettings(size_bytes, every_s, source, seed=seed) if workers else None,
        reorder_every=reorder_every,
        period_s=period_s,
        policy=policy,
        trace=None if trace is None else read_trace(whole(trace), loaded, seed),
        seed=seed,
        dashboard=None if dashboard is None else _dashboard(*dashboard),
    )


def _dashboard(listen: str, token_file: Path | None) -> DashboardSettings:
    from testbed.live.showing import DashboardSettings
    from testbed.live.web.serving import read_listen, read_token

    read_listen(listen)
    if token_file is not None:
        read_token(token_file)
    return DashboardSettings(listen, None if token_file is None else token_file.absolute())


def _goes_with(option: str, there: bool, given: dict[str, bool]) -> None:
    """What would be of no effect without an option is given together with it."""
    alone = next((name for name, is_given in given.items() if is_given and not there), None)
    if alone is not None:
        raise InputError(f"this says something of {option}, which is not there", place=alone, remedy=f"add {option}")


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError("not one of the choices", place=option, value=value, remedy=did_you_mean(value, list(known)))


def _most_bytes(ranks: int) -> float:
    """Of a shard: every rank holds one of each, and its own, in this machine's memory."""
    from testbed.experiment import MEMORY_SHARE

    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return MEMORY_SHARE * memory_bytes / (ranks * (ranks + 1))


def _quantity(option: str, text: str, parse: Callable[[object], float], low: float, high: float, example: str) -> float:
    try:
        value = parse(text)
    except ValueError as error:
        message, _, remedy = str(error).partition("; ")
        raise InputError(message, place=option, value=text, remedy=remedy) from error
    if not low <= value <= high:
        message = f"this lies between {low:g} and {high:g}"
        raise InputError(message, place=option, value=text, remedy=f"write it like {example}")
    return value


def check_kernel(asked: Kernel) -> None:
    """InputError for a kernel on which nobody can watch."""
    if asked is Kernel.EXACT:
        raise InputError(
            "in virtual time nobody can watch: while nothing is sent it runs ahead of people, and else behind them",
            place="--kernel",
            value=asked.value,
            remedy="take uml, which has delay, jitter and loss too; exact figures come of ringroad run --kernel exact",
        )


def kernel_of(asked: Kernel, settings: LiveSettings) -> Choice | None:
    """The kernel that the testbed comes up on, None for this machine's own, and says which it is.

    RingroadError if it is asked for and is not there.
    """
    from testbed.kernels.choosing import needs_of
    from testbed.kernels.relaunch import other_kernel

    return other_kernel(asked, needs_of(settings.wan))


def bring_up(settings: LiveSettings, choice: Choice | None, on_ready: Callable[[Running], None]) -> int:
    """Up until it is taken down, or a signal comes; the exit code: 0 only if it was up."""
    from testbed.emulation import state

    run_id = ""

    def is_up(running: Running) -> None:
        nonlocal run_id
        state.forget_end()
        on_ready(running)
        run_id = running.run_id

    try:
        if choice is None:
            return foreground(settings, lambda parts: is_up(_running(parts)), lambda: run_id != "")
        code, why = _elsewhere(settings, choice, is_up)
        if run_id and not why and code not in (0, INTERRUPTED_EXIT_CODE):
            raise RingroadError(f"the testbed inside ended with status {code}", "ringroad up starts another")
        if run_id and why:
            state.note_end(run_id, why)
        return code
    except RingroadError as error:
        if run_id:
            state.note_end(run_id, error.message)
        raise


def inside(settings: LiveSettings) -> int:
    """In a kernel that was booted for it: as `bring_up`, and whoever booted it is told, and reaches it."""
    from testbed.live.gate import Gate
    from testbed.live.protocol import SOCKET

    ready = False

    def is_up(parts: Parts) -> None:
        nonlocal ready
        gate.open(parts.bed.state / SOCKET)
        ready = True

    with Gate() as gate:
        try:
            return foreground(settings, is_up, lambda: ready)
        except RingroadError as error:
            gate.tell_failure(error)
            raise


def foreground(settings: LiveSettings, on_ready: Callable[[Parts], None], is_ready: Callable[[], bool]) -> int:
    """On the kernel that this process runs on. `is_ready` tells whether `on_ready` has been called, and returned."""
    from testbed.live.daemon import run

    log.info("bringing %s up", settings.wan.name)
    try:
        with interruptible():
            run(settings, on_ready)
    except KeyboardInterrupt:
        ready = is_ready()
        log.info("taken down" if ready else "taken down before it was up")
        return 0 if ready else INTERRUPTED_EXIT_CODE
    log.info("taken down")
    return 0


def _elsewhere(settings: LiveSettings, choice: Choice, on_ready: Callable[[Running], None]) -> tuple[int, str]:
    """On another kernel, where this very command is given again; the exit code, and why if it failed."""
    from testbed.kernels.relaunch import this_command
    from testbed.live.elsewhere import run_elsewhere

    try:
        with interruptible():
            return run_elsewhere(settings, choice, this_command(), on_ready)
    except KeyboardInterrupt:
        log.info("taken down before it was up")
        return INTERRUPTED_EXIT_CODE, ""


def _running(parts: Parts) -> Running:
    from testbed.kernels.inside import ran_on
    from testbed.live.protocol import SOCKET
    from testbed.live.running import Running

    bed, kernel = parts.bed, ran_on()["kernel"]
    return Running(bed.wan.name, bed.run_id, os.getpid(), bed.state / SOCKET, bed.log_folder, parts.dashboard, kernel)


def tell(running: Running, as_json: bool) -> None:
    """That it is up, on stdout."""
    if as_json:
        typer.echo(json.dumps(running.facts(), ensure_ascii=False))
    else:
        log.info("%s is up, run %s; Ctrl-C or `ringroad down` takes it down", running.wan, running.run_id)
        if running.dashboard:
            typer.echo(f"dashboard: {running.dashboard}")


def _detached(settings: LiveSettings, choice: Choice | None, as_json: bool) -> int:
    """In a process and a session of its own, which says here what goes wrong until it is up."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        os.setsid()
        return bring_up(settings, choice, lambda running: _let_go(running, writable))
    os.close(writable)
    try:
        with interruptible(), os.fdopen(readable) as said:
            line = said.readline()
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        return INTERRUPTED_EXIT_CODE
    if not line:
        return _ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    facts = json.loads(line)
    if as_json:
        typer.echo(line.strip())
    else:
        typer.echo(f"{facts['wan']} is up, run {facts['run_id']}; `ringroad down` takes it down")
        typer.echo(f"log: {facts['log']}")
        if facts["dashboard"]:
            typer.echo(f"dashboard: {facts['dashboard']}")
    return 0


def _ended(code: int) -> int:
    """The exit code of a testbed that did not come up; it has said why, unless it was killed."""
    if code < 0:
        message = f"the testbed was killed by {signal.Signals(-code).name} while it came up"
        raise RingroadError(message, "remove what is left of it: ringroad clean")
    return code


def _let_go(running: Running, writable: int) -> None:
    """It is up: tell the one who waits, and write to the log from now on."""
    facts = running.facts()
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    log_file = os.open(Path(str(facts["log"])), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, nothing), (1, log_file), (2, log_file)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log_file)
    os.write(writable, json.dumps(facts).encode() + b"\n")
    os.close(writable)
