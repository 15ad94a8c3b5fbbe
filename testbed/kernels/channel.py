"""What the first process inside a user-mode kernel and the program that booted it tell each other. Pure.

JSON lines over a serial line, both ways. From inside: `up`, `alive`, `progress`, `exit`; to the inside: `signal`.
And the job: a file that the first process reads before it does anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

JOB_FILE = "/run/ringroad-job.json"
"""Where every process inside finds the job; no such file exists on a machine's own kernel."""

STDOUT, STDERR, CONTROL = "/dev/ttyS0", "/dev/ttyS1", "/dev/ttyS2"
"""Serial lines inside, and what the machine that booted it has at their other ends."""

CONNECTIONS = "/dev/ttyS3"
"""The one that a live testbed is reached by; see `multiplex`."""

MAX_LINE_BYTES = 3500
"""A serial line takes this much in one piece."""


@dataclass(frozen=True)
class Job:
    """What a user-mode kernel is booted for: one command, as it was given outside, in the same folder.

    `writable` are folders of the machine that the command may write to; all else is read-only or the kernel's own.
    `kernel`, `version` and `why` are for results; `run_id` is the run's.
    """

    command: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    writable: tuple[str, ...]
    kernel: str
    version: str
    why: str
    virtual_time: bool
    modules: str | None
    run_id: str
    pid: int = 0
    """The process that booted it."""
    epoch_s: float | None = None
    """What wall clocks inside shall show at the start: only a label; None leaves the machine's."""

    def encode(self) -> str:
        """As JSON text."""
        return json.dumps(asdict(self))


def job_from_text(text: str) -> Job:
    """What `Job.encode` wrote."""
    plain = json.loads(text)
    return Job(**{**plain, "command": tuple(plain["command"]), "writable": tuple(plain["writable"])})


def encode(event: str, **values: Any) -> bytes:
    """One message. ValueError if it is too long for a serial line."""
    line = (json.dumps({"event": event, **values}) + "\n").encode()
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a message of {len(line)} bytes does not fit: at most {MAX_LINE_BYTES}")
    return line


class Lines:
    """Puts messages together from what arrives in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def messages(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Every message that is whole by now; a line that is none (noise of the kernel's) is left out."""
        *whole, self._rest = (self._rest + piece).split(b"\n")
        for line in whole:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict) and "event" in message:
                yield message
