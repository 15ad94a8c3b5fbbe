"""The ranks of one job, from their fork to their end: who has reported what, what is next, who is to blame.

Runs in the launcher's one thread, on the events of its selector; nothing here blocks but the end of killed processes.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from topologies.errors import InputError
from workers import turns
from workers.blame import Failure, Kind, culprit, is_certain
from workers.job import Job, rank_name
from workers.member import Member

GRACE_S = 0.5
"""How long a broken connection waits for the news of a death that explains it."""

Message = dict[str, Any]
RankMain = Callable[[Job, int, socket.socket, int, Path], int]
"""What a forked rank runs: (job, rank, socket to the launcher, launcher's pid, file of the rendezvous) → status."""


class Crew:
    """`answer` gets the reply to the client's pending request, `emit` every event. A failure ends the crew first."""

    def __init__(
        self,
        job: Job,
        rank_main: RankMain,
        selector: selectors.BaseSelector,
        folder: Path,
        *,
        answer: Callable[[Message], None],
        emit: Callable[[Message], None],
    ) -> None:
        self._job, self._rank_main, self._selector = job, rank_main, selector
        self._answer, self._emit = answer, emit
        self._rendezvous = Path(tempfile.mkdtemp(prefix="rendezvous-", dir=folder))
        self._members: dict[int, Member] = {}
        self._ready_at = 0.0
        self._waiting_for: set[int] = set(range(len(job.ranks)))
        self._records: dict[int, Message] = {}
        self._failures: list[Failure] = []
        self._warmup_s: list[float] = []
        self._collective = -job.warmup
        self._scheduled: float | None = None
        self._run_start: float | None = None
        self._every = job.agent.every
        self._order: list[int] | None = None
        self.blame_at: float | None = None
        """When the launcher has to call `settle_blame`; None: no trouble."""

    def start(self, not_for_child: Iterable[socket.socket]) -> None:
        """Fork every rank. The answer follows when they have joined and warmed up."""
        Path(self._job.log_folder).mkdir(parents=True, exist_ok=True)
        launcher, keep_out = os.getpid(), list(not_for_child)
        for rank in range(len(self._job.ranks)):

            def main(connection: socket.socket, rank: int = rank) -> int:
                return self._rank_main(self._job, rank, connection, launcher, self._rendezvous / "store")

            member = Member(main, [*keep_out, *(other.connection for other in self._members.values())])
            self._members[rank] = member
            self._selector.register(member.connection, selectors.EVENT_READ, partial(self._listen, rank))
            self._selector.register(member.pidfd, selectors.EVENT_READ, partial(self._bury, rank))

    def run(self, start_at: float | None) -> None:
        """Begin the measured collectives. The answer follows when they are over."""
        self._run_start = time.monotonic() if start_at is None else start_at
        self._next_turn()

    def adjust(self, every: int | None, order: list[int] | None) -> None:
        """From the next collective on: the agent acts before every `every`-th, the ring begins anew with `order`.

        None leaves either as it is. InputError if `order` does not name every rank once.
        """
        if order is not None and sorted(order) != list(range(len(self._job.ranks))):
            raise InputError("a ring names every rank once", place="order", value=order)
        self._every = self._every if every is None else every
        self._order = self._order if order is None else order

    def end(self) -> None:
        """Kill every rank, wait for its end, remove the rendezvous. Idempotent."""
        for member in self._members.values():
            member.kill()
        for rank in list(self._members):
            self._dismiss(rank)
        shutil.rmtree(self._rendezvous, ignore_errors=True)

    def settle_blame(self) -> None:
        """End everybody and answer with the culprit's name, what it said and where it logged."""
        failure = self._stopped() or culprit(self._failures)
        self.end()
        log = str(self._job.log_path(failure.rank))
        name = rank_name(self._job, failure.rank)
        self._answer({"failed": {"culprit": name, "message": failure.message, "log": log}})

    def _stopped(self) -> Failure | None:
        """A rank that has been stopped makes all others fail, and cannot say so itself."""
        stopped = (rank for rank, member in sorted(self._members.items()) if member.is_stopped())
        return next((Failure(rank, Kind.DIED, "has been stopped, as by SIGSTOP") for rank in stopped), None)

    def _dismiss(self, rank: int) -> str:
        member = self._members.pop(rank)
        for watched in (member.connection, member.pidfd):
            if watched in self._selector.get_map():
                self._selector.unregister(watched)
        return member.end()

    def _listen(self, rank: int) -> None:
        messages, closed = self._members[rank].heard()
        if closed:
            self._selector.unregister(self._members[rank].connection)
        for message in messages:
            self._understand(rank, message)

    def _bury(self, rank: int) -> None:
        """The process of that rank has ended; its last words first."""
        for message in self._members[rank].heard()[0]:
            self._understand(rank, message)
        if rank not in self._members:  # those words were the end of the run
            return
        how = self._dismiss(rank)
        if all(failure.rank != rank for failure in self._failures):
            self._fail(Failure(rank, Kind.DIED, how))

    def _fail(self, failure: Failure) -> None:
        self._failures.append(failure)
        now = time.monotonic()
        self.blame_at = now if is_certain(self._failures) else self.blame_at or now + GRACE_S

    def _understand(self, rank: int, message: Message) -> None:
        if "failed" in message:
            self._fail(Failure(rank, Kind(message["failed"]["kind"]), message["failed"]["message"]))
            return
        if "ring_change" in message:
            self._emit(message["ring_change"])
            return
        self._waiting_for.discard(rank)
        if "record" in message:
            self._records[rank] = message["record"]
        if not self._waiting_for:
            self._all_reported()

    def _all_reported(self) -> None:
        """Every rank is ready, or has verified the collective."""
        if self._records:
            self._keep_records()
            self._collective += 1
        else:
            self._ready_at = time.monotonic()
        if self._collective < 0 or self._run_start is not None:
            self._next_turn()
            return
        pids = [self._members[rank].pid for rank in sorted(self._members)]
        self._answer({"pids": pids, "ready_at": self._ready_at, "warmup_s": self._warmup_s})

    def _keep_records(self) -> None:
        records = [self._records[rank] for rank in sorted(self._records)]
        self._records = {}
        record = turns.collective_record(self._job, self._scheduled, records)
        if self._collective < 0:
            self._warmup_s.append(record["time_s"])
            return
        self._emit(record)

    def _next_turn(self) -> None:
        if self._run_start is not None:
            if turns.is_over(self._job, self._collective, self._run_start, time.monotonic()):
                self.end()
                self._answer({"collectives": self._collective})
                return
            self._scheduled = turns.scheduled_start(self._job, self._collective, self._run_start)
        self._waiting_for = set(range(len(self._job.ranks)))
        agent = turns.agent_is_due(self._job, self._collective, self._every)
        turn = {"turn": self._collective, "at": self._scheduled, "agent": agent, "order": self._order}
        self._order = None
        for member in self._members.values():
            member.tell(turn)
