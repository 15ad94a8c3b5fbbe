"""The WAN controller of a live testbed: its policy and T_wan, the routes that it has set, and what it reports.

The arm says whether it moves paths at all; the ring's half of an arm is in `loop`.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from controller.client import ControllerClient, EventStream
from testbed.live.hub import Hub
from testbed.live.protocol import Control, FaultEvent, Move, ReconfigurationEvent, Route, RoutesEvent
from topologies.errors import RingroadError

MOVING_ARMS = ("wan", "joint")
STILL = "shortest"
"""The policy of arms whose paths never move."""

SHOWN_MOVES = 2
TOLD_TOO = ("policy", "error", "restart", "malformed")
"""Events of the controller that people should know of, beside reconfigurations."""


class Steering:
    """Several threads may use it; changes wait for each other, and until every switch has confirmed."""

    def __init__(self, socket: Path, hub: Hub, control: Control, moving_policy: str) -> None:
        """`control` is what the controller has been started with, `moving_policy` what arms use whose paths move."""
        self.control = control
        self._hub, self._moving_policy = hub, moving_policy
        self._lock = threading.Lock()
        self._client = ControllerClient(socket)
        self._viewer = ControllerClient(socket)
        self._viewing = threading.Lock()
        self._stream = EventStream(socket)
        self._thread = threading.Thread(target=self._listen, name="journal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._stream.close()
        self._thread.join()
        for client in (self._client, self._viewer):
            client.close()

    def policy_of(self, arm: str) -> str:
        """The path policy that an arm has."""
        return self._moving_policy if arm in MOVING_ARMS else STILL

    def set_arm(self, arm: str) -> Control:
        """Another policy if the arm has another one. Returns once the switches have confirmed."""
        with self._lock:
            policy = self.policy_of(arm)
            if policy != self.control.policy:
                self._client.reset(policy, self.control.period_s)
            self.control = replace(self.control, arm=arm, policy=policy)
        self.tell_routes()
        return self.control

    def set_period(self, period_s: float) -> Control:
        """Another T_wan; routes stay."""
        with self._lock:
            self._client.period(period_s)
            self.control = replace(self.control, period_s=period_s)
            return self.control

    def set_reorder_every(self, every: int) -> Control:
        """Remember another N; whoever owns the ring acts on it."""
        with self._lock:
            self.control = replace(self.control, reorder_every=every)
            return self.control

    def routes(self) -> tuple[Route, ...]:
        """Every pair's path as the controller has decided it."""
        with self._viewing:
            view = self._viewer.view()
        return tuple(Route(a, b, tuple(path), (a, b) in view.active) for (a, b), path in view.routes.items())

    def tell_routes(self) -> None:
        """To whoever listens."""
        if self._hub.has_listeners:
            self._hub.publish(RoutesEvent, "", routes=self.routes())

    def _listen(self) -> None:
        with suppress(RingroadError, OSError, ValueError):
            for event in self._stream.events():
                self._hear(event)

    def _hear(self, event: dict[str, Any]) -> None:
        kind = str(event.get("event"))
        if kind == "reconfiguration":
            self._hub.publish(ReconfigurationEvent, _text(event), **_reconfiguration(event))
            self.tell_routes()
        elif kind in TOLD_TOO:
            what = event.get("what") or event.get("reason") or ""
            self._hub.publish(FaultEvent, f"controller: {kind} {what}".rstrip(), what="controller", targets=())


def _reconfiguration(event: dict[str, Any]) -> dict[str, Any]:
    """The fields of the event."""
    plain = {name: event[name] for name in ("number", "cause", "happened_at", "seen_at", "decided_at", "installed_at")}
    moves = tuple(Move(*move["pair"], tuple(move["from"]), tuple(move["to"])) for move in event["moves"])
    return {**plain, "latency_s": _latency_s(event), "moves": moves}


def _latency_s(event: dict[str, Any]) -> float | None:
    installed_at = event["installed_at"]
    return None if installed_at is None else installed_at - event["happened_at"]


def _text(event: dict[str, Any]) -> str:
    moves = event["moves"]
    shown = "; ".join(f"{' – '.join(m['from'])} ⇒ {' – '.join(m['to'])}" for m in moves[:SHOWN_MOVES])
    more = f" and {len(moves) - SHOWN_MOVES} more" if len(moves) > SHOWN_MOVES else ""
    latency_s = _latency_s(event)
    took = "not confirmed" if latency_s is None else f"in {latency_s * 1e3:.1f} ms"
    pairs = "pair" if len(moves) == 1 else "pairs"
    return f"{len(moves)} {pairs} moved ({event['cause'].replace('_', ' ')}) {took}: {shown}{more}"
