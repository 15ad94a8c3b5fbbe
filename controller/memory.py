"""What the controller was told since its start, in a file beside its socket, for the worker that comes after a crash.

Switches remember routes, but nobody repeats a capacity that has not changed, a policy or a pin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controller.view import Pair, Route
from topologies.model import Edge


@dataclass(frozen=True)
class Told:
    """Policy and period in force, capacities of every directed edge, pinned pairs, announced bytes by pair.

    `true_capacities_bps` are for metrics to show, of the edges that were told.
    """

    policy: str
    period_s: float
    capacities_bps: Mapping[Edge, float]
    pins: Mapping[Pair, Route]
    demands_bytes: Mapping[Pair, float] | None = None
    true_capacities_bps: Mapping[Edge, float] = field(default_factory=dict)


class Memory:
    """The file. It is written whole and renamed, so that it is never half of anything."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def keep(self, told: Told) -> None:
        """From now on this is what was told."""
        plain = {
            "policy": told.policy,
            "period_s": told.period_s,
            "capacities": [[*edge, rate] for edge, rate in told.capacities_bps.items()],
            "pins": [[*pair, list(route)] for pair, route in told.pins.items()],
            "true_capacities": [[*edge, rate] for edge, rate in told.true_capacities_bps.items()],
            "demands": None if told.demands_bytes is None else [[*pair, n] for pair, n in told.demands_bytes.items()],
        }
        fresh = self._file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(plain))
        fresh.replace(self._file)

    def recall(self) -> Told | None:
        """What was kept last; None if nothing was."""
        try:
            plain = json.loads(self._file.read_text())
        except FileNotFoundError:
            return None
        return Told(
            plain["policy"],
            plain["period_s"],
            {(a, b): rate for a, b, rate in plain["capacities"]},
            {(a, b): tuple(route) for a, b, route in plain["pins"]},
            None if plain["demands"] is None else {(a, b): size for a, b, size in plain["demands"]},
            {(a, b): rate for a, b, rate in plain["true_capacities"]},
        )

    def forget(self) -> None:
        """Remove the file."""
        self._file.unlink(missing_ok=True)
        self._file.with_suffix(".new").unlink(missing_ok=True)
