"""Reconfigurations as values, and their JSON: what the controller reports. Pure; process and clients share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.view import Pair, Route


@dataclass(frozen=True)
class Move:
    """One pair leaves one route for another."""

    pair: Pair
    before: Route
    after: Route


@dataclass(frozen=True)
class Reconfiguration:
    """Why and when pairs moved. Times are seconds of CLOCK_MONOTONIC.

    `happened_at` is the cause's own time where it is known (a capacity message carries it), else `seen_at`.
    `installed_at` is when the last switch confirmed by barrier reply; None while it has not, or never will: `lost`
    names the sites whose switch went away first, `superseded` the pairs that a later reconfiguration moved first.
    """

    number: int
    cause: str
    happened_at: float
    seen_at: float
    decided_at: float
    moves: tuple[Move, ...]
    installed_at: float | None = None
    lost: tuple[str, ...] = ()
    superseded: tuple[Pair, ...] = ()


def reconfiguration_to_json(record: Reconfiguration) -> dict[str, Any]:
    """The event as subscribers get it and as `reconfigurations.jsonl` keeps it."""
    return {
        "event": "reconfiguration",
        "number": record.number,
        "cause": record.cause,
        "happened_at": record.happened_at,
        "seen_at": record.seen_at,
        "decided_at": record.decided_at,
        "installed_at": record.installed_at,
        "moves": [{"pair": list(m.pair), "from": list(m.before), "to": list(m.after)} for m in record.moves],
        "lost": list(record.lost),
        "superseded": [list(pair) for pair in record.superseded],
    }


def reconfiguration_from_json(plain: dict[str, Any]) -> Reconfiguration:
    """What `reconfiguration_to_json` wrote."""
    moves = (Move((m["pair"][0], m["pair"][1]), tuple(m["from"]), tuple(m["to"])) for m in plain["moves"])
    return Reconfiguration(
        number=plain["number"],
        cause=plain["cause"],
        happened_at=plain["happened_at"],
        seen_at=plain["seen_at"],
        decided_at=plain["decided_at"],
        installed_at=plain["installed_at"],
        moves=tuple(moves),
        lost=tuple(plain["lost"]),
        superseded=tuple((a, b) for a, b in plain["superseded"]),
    )
