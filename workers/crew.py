"""The ranks of one job, from their fork to their end: who has reported what, what is next, who is to blame.

Ranks work in worlds (`workers.world`): a job begins with one of all ranks. Where the job is elastic, a death leads to
the next world, and so does a rank that is started anew; connections that break without a death do so in any job.
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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from topologies.errors import InputError
from workers import turns
from workers.blame import Failure, Kind, culprit, is_certain
from workers.changes import Changes
from workers.job import Job, rank_name
from workers.member import Member
from workers.world import first_world, home, in_world, reformed

GRACE_S = 0.5
"""How long a broken connection waits for the news of a death that explains it."""

MAX_REBUILDS = 3
"""In a row without a collective in between: then the network is not going to come back."""

LEAST = 2
"""Ranks that a collective needs."""

Message = dict[str, Any]
RankMain = Callable[[Job, int, socket.socket, int], int]
"""What a forked rank runs: (job, rank, socket to the launcher, launcher's pid) → status."""


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
        self._world, self._home = first_world(job), home(job)
        self._changes = Changes(job)
        self._ready_at: float | None = None
        self._is_announced = False
        self._waiting_for: set[int] = set()
        self._records: dict[int, Message] = {}
        self._failures: list[Failure] = []
        self._rebuilds = 0
        self._warmup_s: list[float] = []
        self._collective = -job.warmup
        self._scheduled: float | None = None
        self._attempt_at: float | None = None
        """When the collective under way began, or will; None: none is."""
        self._interrupted_at: list[float] = []
        self._run_start: float | None = None
        self._every = job.agent.every
        self._agent_is_due = False
        self._order: list[int] | None = None
        self.blame_at: float | None = None
        """When the launcher has to call `settle_blame`; None: no trouble."""

    # What the client asks for.

    def start(self, not_for_child: Iterable[socket.socket]) -> None:
        """Fork every rank. The answer follows when they have joined and warmed up."""
        Path(self._job.log_folder).mkdir(parents=True, exist_ok=True)
        keep_out = list(not_for_child)
        for rank in range(len(self._job.ranks)):
            self._fork(rank, keep_out)
        self._enter_world()

    def run(self, start_at: float | None) -> None:
        """Begin the measured collectives. The answer follows when they are over."""
        self._run_start = time.monotonic() if start_at is None else start_at
        if not self._waiting_for:
            self._next_turn()

    def adjust(self, every: int | None, order: list[int] | None) -> None:
        """From the next collective on: the agent acts before every `every`-th, the ring begins anew with `order`.

        None leaves either as it is. InputError if `order` does not name every rank once; those that are not there now
        find their place in it when they come back.
        """
        if order is not None and sorted(order) != list(range(len(self._job.ranks))):
            raise InputError("a ring names every rank once", place="order", value=order)
        self._every = self._every if every is None else every
        if order is not None:
            self._order, self._home = order, tuple(order)

    def crash(self, dc: str) -> list[int]:
        """Kill the ranks of a DC; returns those that were there. What follows is what follows any death."""
        ranks = [rank for rank in self._ranks_of(dc) if rank in self._members]
        for rank in ranks:
            self._members[rank].kill()
        for rank in ranks:
            self._bury(rank)
        return ranks

    def restart(self, dc: str, not_for_child: Iterable[socket.socket]) -> list[int]:
        """Fork the ranks of a DC that are gone; they join before the next collective. InputError if none is gone."""
        if not self._job.elastic:
            raise InputError("ranks come back only in a job that is elastic", place="dc", value=dc)
        gone = [rank for rank in self._ranks_of(dc) if rank not in self._members]
        if not gone:
            raise InputError("no rank of this DC is gone", place="dc", value=dc)
        for rank in gone:
            self._fork(rank, list(not_for_child))
            self._changes.came(rank, time.monotonic())
        nobody_works = not self._waiting_for and self._run_start is None
        if nobody_works or (self._attempt_at is not None and time.monotonic() < self._attempt_at):
            self._form()
        return gone

    def end(self) -> None:
        """Kill every rank, wait for its end, remove the rendezvous. Idempotent."""
        for member in self._members.values():
            member.kill()
        for rank in list(self._members):
            self._dismiss(rank)
        shutil.rmtree(self._rendezvous, ignore_errors=True)

    # Processes.

    def _ranks_of(self, dc: str) -> list[int]:
        ranks = [rank for rank, name in enumerate(self._job.dcs) if name == dc]
        if not ranks:
            raise InputError("no rank works in a DC of that name", place="dc", value=dc)
        return ranks

    def _fork(self, rank: int, not_for_child: list[socket.socket]) -> None:
        launcher = os.getpid()

        def main(connection: socket.socket) -> int:
            return self._rank_main(self._job, rank, connection, launcher)

        member = Member(main, [*not_for_child, *(other.connection for other in self._members.values())])
        self._members[rank] = member
        self._selector.register(member.connection, selectors.EVENT_READ, partial(self._listen, rank))
        self._selector.register(member.pidfd, selectors.EVENT_READ, partial(self._bury, rank))

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
        if any(failure.rank == rank and failure.kind is Kind.FAILED for failure in self._failures):
            return
        if self._job.elastic:
            self._lose(rank, how)
        else:
            self._fail(Failure(rank, Kind.DIED, how))

    # Trouble.

    def settle_blame(self) -> None:
        """Go on without who has been stopped, or with new connections; else end everybody and name the culprit."""
        stopped = [rank for rank, member in sorted(self._members.items()) if member.is_stopped()]
        failure = culprit(self._failures)
        if stopped and failure.kind is Kind.CONNECTION:
            how = "has been stopped, as by SIGSTOP"
            if self._job.elastic:
                self._give_up_on(stopped, how)
                return
            failure = Failure(stopped[0], Kind.DIED, how)
        elif failure.kind is Kind.CONNECTION and self._may_connect_anew():
            self._rebuilds += 1
            self._changes.broke(f"{rank_name(self._job, failure.rank)}: {failure.message}")
            self._form()
            return
        self.end()
        log = str(self._job.log_path(failure.rank))
        name = rank_name(self._job, failure.rank)
        self._answer({"failed": {"culprit": name, "message": failure.message, "log": log}})

    def _may_connect_anew(self) -> bool:
        return self._job.perf is None and self._ready_at is not None and self._rebuilds < MAX_REBUILDS

    def _give_up_on(self, ranks: list[int], why: str) -> None:
        for rank in ranks:
            self._members[rank].kill()
            self._dismiss(rank)
            self._changes.lost(rank, why, time.monotonic())
        self._go_on_without(ranks[-1], why)

    def _lose(self, rank: int, how: str) -> None:
        self._changes.lost(rank, how, time.monotonic())
        if rank in self._world.members:
            self._go_on_without(rank, how)

    def _go_on_without(self, rank: int, why: str) -> None:
        if len(self._members) >= LEAST:
            self._form()
            return
        self._failures = [Failure(rank, Kind.DIED, f"{why}, and fewer than {LEAST} ranks are left")]
        self.blame_at = time.monotonic()

    def _fail(self, failure: Failure) -> None:
        self._failures.append(failure)
        now = time.monotonic()
        self.blame_at = now if is_certain(self._failures) else self.blame_at or now + GRACE_S

    # Worlds.

    def _form(self) -> None:
        """The next world, of everybody who is there. A collective under way is begun again in it."""
        now = time.monotonic()
        interrupts = self._attempt_at is not None and now > self._attempt_at
        if interrupts and self._attempt_at is not None:
            self._interrupted_at.append(self._attempt_at)
        self._changes.forming(now, interrupts=interrupts)
        self._attempt_at = None
        self._world = reformed(self._world, self._members.keys(), self._home)
        self._failures, self.blame_at, self._records = [], None, {}
        self._agent_is_due = self._job.agent.source != "passive"
        self._enter_world()

    def _enter_world(self) -> None:
        store = str(self._rendezvous / f"world{self._world.generation}")
        self._waiting_for = set(self._world.members)
        for rank in self._world.members:
            self._members[rank].tell({"world": self._world.to_json(), "store": store})

    # Turns.

    def _understand(self, rank: int, message: Message) -> None:
        if message["generation"] not in (None, self._world.generation):
            return
        if "failed" in message:
            self._fail(Failure(rank, Kind(message["failed"]["kind"]), message["failed"]["message"]))
            return
        if "ring_change" in message:
            self._follow(message["ring_change"]["to"], message["ring_change"]["epoch"])
            self._emit(message["ring_change"])
            return
        self._waiting_for.discard(rank)
        if "record" in message:
            self._records[rank] = message["record"]
        if not self._waiting_for:
            self._all_reported()

    def _follow(self, order: Iterable[int], epoch: int) -> None:
        self._world = replace(self._world, order=tuple(order), epoch=epoch)

    def _all_reported(self) -> None:
        """Every rank has joined the world, or has verified the collective."""
        if self._records:
            self._keep_records()
            self._collective += 1
        elif self._world.generation > 0:
            self._emit(self._changes.settled(self._world, self._collective, time.monotonic()))
        self._ready_at = self._ready_at or time.monotonic()
        if self._collective < 0 or self._run_start is not None:
            self._next_turn()
        elif not self._is_announced:
            self._is_announced = True
            pids = [self._members[rank].pid if rank in self._members else None for rank in range(len(self._job.ranks))]
            self._answer({"pids": pids, "ready_at": self._ready_at, "warmup_s": self._warmup_s})

    def _keep_records(self) -> None:
        records = [self._records[rank] for rank in sorted(self._records)]
        self._records, self._attempt_at, self._rebuilds = {}, None, 0
        record = turns.collective_record(self._job, self._scheduled, records, self._interrupted_at)
        self._interrupted_at = []
        if self._job.perf is None:
            self._follow(record["order"], record["epoch"])
        if self._collective < 0:
            self._warmup_s.append(record["time_s"])
            return
        self._emit(record)

    def _next_turn(self) -> None:
        if self._run_start is not None:
            if not self._interrupted_at and turns.is_over(
                self._job, self._collective, self._run_start, time.monotonic()
            ):
                self.end()
                self._answer({"collectives": self._collective})
                return
            self._scheduled = turns.scheduled_start(self._job, self._collective, self._run_start)
        if self._members.keys() != set(self._world.members):
            self._form()
            return
        agent = turns.agent_is_due(self._job, self._collective, self._every)
        agent |= self._agent_is_due and self._every > 0 and self._collective >= 0
        turn = {"turn": self._collective, "at": self._scheduled, "agent": agent, "order": self._order}
        if self._order is not None:
            self._follow(in_world(self._world, self._order), self._world.epoch + 1)
        self._order, self._agent_is_due = None, False
        self._attempt_at = max(time.monotonic() + self._job.compute_s, self._scheduled or 0.0)
        self._waiting_for = set(self._world.members)
        for rank in self._world.members:
            self._members[rank].tell(turn)
