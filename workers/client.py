"""The runner's side of the workers: start the launcher, give it a job, receive what happens, stop it.

Imports no torch. What a worker does is `rank`'s affair, who supervises it is `launcher`'s.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from topologies import wire
from topologies.errors import RingroadError
from workers.job import Job, job_to_json

Event = dict[str, Any]


class WorkerFailed(RingroadError):
    """A rank died or could not go on. Names the rank and DC and quotes the end of its log."""

    exit_code = 4

    def __init__(self, culprit: str, message: str, log: str = "") -> None:
        quoted = _end_of(Path(log)) if log else ""
        remedy = f"the end of its log {log}:\n{quoted}" if quoted else ""
        super().__init__(f"{culprit}: {message}", remedy)
        self.culprit, self.log = culprit, log


def launch(socket_path: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the launcher, listening on `socket_path`. Returns at once: a client may connect right away and waits.

    The launcher and its ranks end when this process does. The caller ends it (terminate) and removes the socket file.
    """
    with wire.listen(socket_path) as server, log.open("ab") as output:
        command = launcher_command(socket_path, server.fileno())
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[server.fileno()]
        )


def launcher_command(socket_path: Path, descriptor: int) -> list[str]:
    """What starts the launcher, for whoever starts processes in a way of their own and passes it `descriptor`.

    The descriptor is that of a socket which listens on `socket_path` already.
    """
    return [sys.executable, "-m", "workers", "--socket", str(socket_path), "--listen-fd", str(descriptor)]


class WorkersClient:
    """One connection to the launcher. `start` and `run` block in the calling thread; `stop` is for any thread.

    Closing the connection stops the job.
    """

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path
        self._on_event: Callable[[Event], None] | None = None
        self._client = wire.Client(socket_path, timeout_s=None, on_event=self._event)

    def start(self, job: Job, on_event: Callable[[Event], None] | None = None) -> dict[str, Any]:
        """Fork one rank per DC, join them in a group, run the warm-up. Blocks until that is done.

        Returns {"pids": [pid by rank], "ready_at": s, "warmup_s": [s per warm-up collective]}; the pid of a rank that
        an elastic job has lost by then is None, and `on_event` got the `membership` record. WorkerFailed names the
        rank that could not, or says that `stop` came first.
        """
        self._on_event = on_event
        try:
            reply = self._ask("start", job=job_to_json(job))
        finally:
            self._on_event = None
        if reply.get("stopped"):
            raise WorkerFailed("the workers", "stopped before they were ready")
        return reply

    def run(self, on_event: Callable[[Event], None], start_at: float | None = None) -> bool:
        """Run the collectives of the job; `on_event` gets each record as it happens, in this thread.

        Records are `collective`, `ring_change` and `membership` (who has left or come back, before which collective).
        `start_at` (CLOCK_MONOTONIC seconds) is when collective 0 starts; None: now. True when all are done, False when
        `stop` ended the run. WorkerFailed names the rank that died or failed, within about a second.
        """
        self._on_event = on_event
        try:
            return not self._ask("run", start_at=start_at).get("stopped", False)
        finally:
            self._on_event = None

    def adjust(self, *, every: int | None = None, order: Sequence[int] | None = None) -> None:
        """Change the job while it runs, from its next collective on; any thread. WireError if there is no job.

        The agent acts before every `every`-th collective (0: never); the ring goes on from `order`, every rank once.
        """
        with wire.Client(self._path) as other:
            other.ask("adjust", every=every, order=None if order is None else list(order))

    def crash(self, dc: str) -> list[int]:
        """Kill the ranks of a DC, as if they had died; from any thread. Returns those that were there.

        What follows is what follows any death: an elastic job goes on without them, any other ends. None are there
        when no job is. WireError if it has no such DC.
        """
        return self._from_beside("crash", dc)

    def restart(self, dc: str) -> list[int]:
        """Fork the ranks of a DC that are gone; from any thread. Returns them; they join before the next collective.

        A `membership` record tells when they have. None are gone when no job is there. WireError if the job is not
        elastic, or does not miss them.
        """
        return self._from_beside("restart", dc)

    def _from_beside(self, op: str, dc: str) -> list[int]:
        with wire.Client(self._path) as other:
            return list(other.ask(op, dc=dc)["ranks"])

    def stop(self) -> None:
        """End the job's ranks at once; a `run` that blocks in another thread returns False. Idempotent."""
        with wire.Client(self._path) as other:
            other.ask("stop")

    def give_up(self) -> None:
        """From any thread: a `start` or `run` that blocks in another one raises WireError. For when nobody answers."""
        self._client.give_up()

    def close(self) -> None:
        """Close the connection; the launcher stops what still runs and waits for the next client."""
        self._client.close()

    def __enter__(self) -> WorkersClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _event(self, event: Event) -> None:
        if self._on_event:
            self._on_event(event)

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        reply = self._client.ask(op, **fields)
        if "failed" in reply:
            raise WorkerFailed(**reply["failed"])
        return reply


def _end_of(log: Path, lines: int = 15) -> str:
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
