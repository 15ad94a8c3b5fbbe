"""What the tests on loopback share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from topologies import wire
from workers.client import WorkersClient
from workers.job import Job

DCS = ("amsterdam", "são paulo", "tokyo", "iowa")

MakeJob = Callable[..., Job]
"""`make(**fields)`: a job of four ranks on loopback, with these fields."""

HANGING_S = 30.0
"""Generous: only tells an end from a hang."""


def results(client: WorkersClient, job: Job, **run: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The collectives and the ring changes of a whole run."""
    events: list[dict[str, Any]] = []
    client.start(job)
    assert client.run(events.append, **run)
    return tuple([e for e in events if e["event"] == kind] for kind in ("collective", "ring_change"))  # type: ignore


@contextmanager
def runner_that_knows(folder: Path, by_source: dict[str, Any]) -> Iterator[Path]:
    """The socket of a runner that answers with what stands under the source it is asked for."""

    def answer() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                for request in wire.messages(connection):
                    assert request == {"op": "bandwidths", "source": request["source"], "dcs": list(DCS)}
                    wire.send(connection, by_source[request["source"]])

    server = wire.listen(folder / "runner.sock")
    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield folder / "runner.sock"
    server.shutdown(2)
    server.close()
    thread.join(HANGING_S)
