"""Plays a timeline on CLOCK_MONOTONIC: at each instant it sets what the timeline says, and writes it down.

Knows when, not how: the network is whatever can shape, fail and heal (a `Testbed`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from testbed.dynamics.timeline import Instant, LinkState
from topologies.errors import RingroadError
from topologies.model import Edge, EdgeProperties, Wan


class Network(Protocol):
    """What a timeline is played on; links are named as in the WAN."""

    def shape_many(self, changes: Mapping[Edge, EdgeProperties]) -> None:
        """Set these directed edges."""

    def fail(self, link: str) -> None:
        """Take a link down."""

    def blackhole(self, link: str) -> None:
        """Let nothing pass, with the link seemingly up."""

    def heal(self, link: str) -> None:
        """End both."""


class Player:
    """Plays `instants` in a thread of its own between `start` and `stop`.

    `record(kind, record)` gets one `changes` or `faults` record per thing set (see `_note`), `crash(dc)` is called to
    kill a DC's worker, `restart(dc)` to give it one again, `failed(error)` when something cannot be set: the rest is
    then not played, and `stop` raises it. All are called from the player's thread, except for what `prepare` sets.
    """

    def __init__(
        self,
        instants: Sequence[Instant],
        wan: Wan,
        network: Network,
        *,
        record: Callable[[str, dict[str, Any]], None],
        crash: Callable[[str], object],
        failed: Callable[[Exception], None],
        restart: Callable[[str], object] | None = None,
    ) -> None:
        self._at_once = [instant for instant in instants if instant.at_s <= 0]
        self._later = [instant for instant in instants if instant.at_s > 0]
        self._network = network
        self._record, self._crash, self._failed = record, crash, failed
        self._restart = restart or _cannot_restart
        self._properties: dict[Edge, EdgeProperties] = dict(wan.edges)
        self._states: dict[str, LinkState] = {link.name: "up" for link in wan.links}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def prepare(self) -> None:
        """Set what holds at second 0, in the calling thread, so that the arm begins on it. Raises what goes wrong."""
        for instant in self._at_once:
            self._apply(instant)
        self._at_once = []

    def start(self, start_at: float) -> None:
        """Play from `start_at` (CLOCK_MONOTONIC seconds) on; returns at once. What is late is set without waiting."""
        self._thread = threading.Thread(target=self._play, args=(start_at,), name="player", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Play no more; blocks until what is being set is set. Raises what went wrong while playing. Idempotent."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _play(self, start_at: float) -> None:
        try:
            for instant in (*self._at_once, *self._later):
                if self._stopped.wait(max(0.0, start_at + instant.at_s - time.monotonic())):
                    return
                self._apply(instant)
        except Exception as error:
            self._error = error
            self._failed(error)

    def _apply(self, instant: Instant) -> None:
        if instant.rates_bps:
            changed = {
                edge: replace(self._properties[edge], rate_bps=rate_bps) for edge, rate_bps in instant.rates_bps.items()
            }
            rates = [[source, target, rate_bps] for (source, target), rate_bps in instant.rates_bps.items()]
            with self._note("changes", instant, rates=rates):
                self._network.shape_many(changed)
            self._properties |= changed
        for link, state in instant.links.items():
            with self._note("faults", instant, link=link, state=state):
                self._set_state(link, state)
        for dc in instant.crashes:
            with self._note("faults", instant, dc=dc, state="crash"):
                self._crash(dc)
        for dc in instant.restarts:
            with self._note("faults", instant, dc=dc, state="restart"):
                self._restart(dc)

    def _set_state(self, link: str, state: LinkState) -> None:
        if self._states[link] != "up":
            self._network.heal(link)
        if state == "down":
            self._network.fail(link)
        elif state == "blackhole":
            self._network.blackhole(link)
        self._states[link] = state

    def _note(self, kind: str, instant: Instant, **what: Any) -> _Note:
        return _Note(self._record, kind, {"planned_s": instant.at_s, **what})


def _cannot_restart(dc: str) -> None:
    raise RingroadError(f"{dc} cannot get a worker again here", "leave `for` out of its crash")


class _Note:
    """Writes one record once its block has ended well: planned (s from second 0), begun and ended (CLOCK_MONOTONIC)."""

    def __init__(self, record: Callable[[str, dict[str, Any]], None], kind: str, what: dict[str, Any]) -> None:
        self._record, self._kind, self._what = record, kind, what

    def __enter__(self) -> None:
        self._begun_at = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            times = {"begun_at": self._begun_at, "applied_at": time.monotonic()}
            self._record(self._kind, {**self._what, **times})
