"""`ringroad capture`: the packets of a link of the running testbed, by tcpdump."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from testbed.commands import names
from testbed.commands.options import AsJson
from topologies.errors import RingroadError

MAX_S = 1000 * 3600.0
_COUNT = re.compile(r"(\d+) packets? captured")


def capture(
    a: Annotated[
        str, typer.Argument(metavar="A", help="At this site's end.", autocompletion=names.sites, show_default=False)
    ],
    b: Annotated[
        str,
        typer.Argument(metavar="B", help="Of the link to this site.", autocompletion=names.sites, show_default=False),
    ],
    expression: Annotated[
        list[str] | None, typer.Argument(metavar="[FILTER]", help="As for tcpdump: tcp port 5201.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-w", metavar="FILE", help="To a file; -: to stdout, for a pipe.", show_default=False)
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="For so long.  [default: until Ctrl-C]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Capture what passes a link, both ways, at A's end: what leaves after its queue, what comes as it arrives.

    \b
    Examples:
      ringroad capture tokyo oregon -w out.pcap --for 10s
      ringroad capture tokyo oregon -w - | wireshark -k -i -
      ringroad capture tokyo oregon tcp
    """
    from testbed.kernels.visit import SOCKET
    from testbed.live.client import Client
    from topologies.errors import InputError
    from topologies.units import parse_duration_s

    try:
        limit_s = None if duration is None else parse_duration_s(duration)
    except ValueError as error:
        message, _, remedy = str(error).partition("; ")
        raise InputError(message, place="--for", value=duration, remedy=remedy) from error
    if limit_s is not None and not 0 < limit_s <= MAX_S:
        raise InputError("a capture lasts more than 0 s and at most 1000 h", place="--for", value=duration)
    if shutil.which("tcpdump") is None:
        raise RingroadError("tcpdump is not there", "apt-get install tcpdump, or scripts/setup")
    with Client() as testbed:
        interface = testbed.where(link=(a, b)).interface
    command = ["tcpdump", "-n", "-i", str(interface), "-Z", "root"]
    elsewhere = testbed.path.with_name(SOCKET)
    if elsewhere.exists():
        command += ["-l"] if file is None else ["-U", "-w", "-"]
        raise typer.Exit(_run_elsewhere(elsewhere, [*command, *(expression or [])], file, limit_s, as_json))
    command += ["-l"] if file is None else ["-U", "-w", str(file)]
    raise typer.Exit(_run([*command, *(expression or [])], file, limit_s, as_json))


def _run(command: list[str], file: Path | None, limit_s: float | None, as_json: bool) -> int:
    """Until it ends, or is ended; what it wrote is kept whole."""
    quiet = as_json and file is None
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL if quiet else None)
    assert process.stderr is not None
    before = signal.signal(signal.SIGINT, lambda *_: process.send_signal(signal.SIGINT))
    signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGINT))
    timer = threading.Timer(limit_s or 0, process.send_signal, [signal.SIGINT])
    if limit_s is not None:
        timer.start()
    said = []
    for line in process.stderr:
        said.append(line)
        if not as_json:
            sys.stderr.write(line)
    code = process.wait()
    timer.cancel()
    signal.signal(signal.SIGINT, before)
    return _told(code, "".join(said), file, as_json)


def _run_elsewhere(path: Path, command: list[str], file: Path | None, limit_s: float | None, as_json: bool) -> int:
    """As `_run`, in the kernel that is reached at `path`; the file is written here."""
    from testbed.kernels.visit import Visit, signals_passed_on

    said = bytearray()

    def hear(piece: bytes) -> None:
        said.extend(piece)
        if not as_json:
            sys.stderr.write(piece.decode(errors="replace"))

    to_stdout = file is None or str(file) == "-"
    passed_on = {signal.SIGINT: signal.SIGINT, signal.SIGTERM: signal.SIGINT}
    with Visit(path, command, os.environ) as visit, signals_passed_on(visit, passed_on), ExitStack() as stack:
        sink = sys.stdout.buffer if to_stdout else stack.enter_context(_opened(file))

        def write(piece: bytes) -> None:
            sink.write(piece)
            sink.flush()

        timer = threading.Timer(limit_s or 0, visit.signal, [signal.SIGINT])
        if limit_s is not None:
            timer.start()
        stack.callback(timer.cancel)
        try:
            code = visit.carry(None, (lambda piece: None) if as_json and file is None else write, hear)
        except BrokenPipeError:  # Nobody reads on.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
    return _told(code, said.decode(errors="replace"), file, as_json)


def _opened(file: Path | None) -> BinaryIO:
    assert file is not None
    try:
        return file.open("wb")
    except OSError as error:
        raise RingroadError(f"cannot write {file}: {error.strerror or error}", "choose another with -w") from error


def _told(code: int, said: str, file: Path | None, as_json: bool) -> int:
    """The result, as JSON if it is asked for; the exit code."""
    count = _COUNT.search(said)
    if as_json and str(file) != "-":
        result = {"file": os.fspath(file) if file else None, "packets": int(count[1]) if count else None}
        typer.echo(json.dumps(result))
    if code and as_json:
        sys.stderr.write(said)
    return 1 if code else 0
