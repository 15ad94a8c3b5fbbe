"""What the processes of a program write: kept as it is in a file each, and line by line on the terminal.

A line appears whole, behind the name of its rank. What ends in a carriage return, as progress bars do, counts as one.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TextIO

LONGEST_LINE = 16 * 1024
"""Bytes; longer lines appear in pieces."""

_END = re.compile(rb"\r?\n|\r")


class Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def fed(self, data: bytes) -> Iterator[str]:
        """The lines that are whole with this, without their ends."""
        self._rest += data
        begin = 0
        for end in _END.finditer(self._rest):
            if end.end() == len(self._rest) and end.group() == b"\r":
                break  # its line feed may follow
            yield self._rest[begin : end.start()].decode(errors="replace")
            begin = end.end()
        self._rest = self._rest[begin:]
        while len(self._rest) > LONGEST_LINE:
            yield self._rest[:LONGEST_LINE].decode(errors="replace")
            self._rest = self._rest[LONGEST_LINE:]

    def rest(self) -> Iterator[str]:
        """What is left at the end of the stream."""
        if self._rest:
            yield self._rest.removesuffix(b"\r").decode(errors="replace")
        self._rest = b""


class Terminal:
    """Where lines of all ranks go, one at a time. `gone` is called once, when it cannot be written to any more."""

    def __init__(self, stream: TextIO | None, gone: Callable[[OSError], None]) -> None:
        """Nothing is shown where `stream` is None."""
        self._stream, self._gone = stream, gone
        self._lock = threading.Lock()

    def show(self, prefix: str, line: str) -> None:
        """One line of one rank."""
        with self._lock:
            if self._stream is None:
                return
            try:
                print(prefix + line, file=self._stream, flush=True)
            except OSError as error:
                self._stream = None
                self._gone(error)


class Pump:
    """A thread that takes what one process writes to its file and to the terminal, until the process closes its end.

    `failed` is called once, when the file cannot be written to any more; the process goes on meanwhile.
    """

    def __init__(
        self, pipe: IO[bytes], log: Path, prefix: str, terminal: Terminal, failed: Callable[[OSError], None]
    ) -> None:
        """OSError if the file cannot be opened."""
        self._pipe, self._file, self._prefix, self._terminal = pipe, log.open("ab", buffering=0), prefix, terminal
        self._failed = failed
        self._thread = threading.Thread(target=self._run, name=f"output {prefix.strip()}", daemon=True)
        self._thread.start()

    def finished(self, timeout_s: float) -> bool:
        """Wait until all has been taken; False if something that outlives the process still holds its output."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        lines = Lines()
        keep = True
        with self._pipe, self._file as file:
            while data := os.read(self._pipe.fileno(), 2**16):
                try:
                    if keep:
                        file.write(data)
                except OSError as error:
                    keep = False
                    self._failed(error)
                for line in lines.fed(data):
                    self._terminal.show(self._prefix, line)
        for line in lines.rest():
            self._terminal.show(self._prefix, line)
