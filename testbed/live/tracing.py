"""The trace of a live testbed: read whole and checked against the WAN, then played until it is stopped.

A trace is given as in an experiment file (a mapping, or YAML on one line), as a CSV of rates, or as a YAML file that
holds it, alone or under `trace:`, as experiments do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from testbed.dynamics.player import Player
from testbed.dynamics.timeline import Instant, timeline
from testbed.dynamics.tracefile import read_rows
from testbed.dynamics.traces import FileSpec, Row, TraceSpec, covered, generate, trace_faults
from testbed.kernels.inside import as_seen_here
from testbed.live.hub import Hub
from testbed.live.network import LiveNetwork
from testbed.live.protocol import FaultEvent, TraceEvent, TraceState, is_written_out
from topologies import yamlfile
from topologies.errors import InputError, RingroadError
from topologies.model import Edge, EdgeProperties, Wan
from topologies.units import format_duration

LONGEST_S = 24 * 3600.0
WORKED_OUT = 20_000
"""How many changes of a trace without end are worked out beforehand: a moment's work. Then they come again."""


class _Holder(BaseModel):
    """What holds a trace; whatever else an experiment says does not matter here."""

    model_config = ConfigDict(extra="ignore")
    trace: Annotated[TraceSpec, BeforeValidator(lambda value: {"kind": value} if isinstance(value, str) else value)]


@dataclass(frozen=True)
class LiveTrace:
    """A trace that fits the WAN, as instants; `name` is for people. After `again_s` it begins anew (None: it ends)."""

    name: str
    instants: tuple[Instant, ...]
    again_s: float | None = None


def read_trace(given: Mapping[str, Any] | str, wan: Wan, seed: int, elsewhere: bool = False) -> LiveTrace:
    """What `given` means: see above. InputError lists everything that is wrong with it.

    Who asks from `elsewhere` is in another folder than this process: a trace that is written out names whole paths.
    """
    if isinstance(given, str) and given.endswith(".csv"):
        rows = read_rows(Path(given), wan)
        spec: Any = FileSpec(kind="file", path=given, hold=True)
        return _worked_out(spec, Path(given).name, rows, wan, seed)
    loaded = _loaded(given)
    spec = yamlfile.validate(_Holder, loaded).trace
    faults = list(trace_faults(spec, wan))
    if faults:
        raise loaded.error(faults)
    rows: tuple[Row, ...] = ()
    if isinstance(spec, FileSpec):
        written_out = not isinstance(given, str) or is_written_out(given)
        if elsewhere and written_out and not Path(spec.path).is_absolute():
            remedy = "give its whole path, or the CSV itself as the trace"
            raise InputError("the testbed is in another folder", place="trace.path", value=spec.path, remedy=remedy)
        rows = read_rows(Path(loaded.file).parent / spec.path, wan)
    name = Path(given).name if isinstance(given, str) and not is_written_out(given) else spec.kind
    return _worked_out(spec, name, rows, wan, seed)


def _loaded(given: Mapping[str, Any] | str) -> yamlfile.Loaded:
    if not isinstance(given, str):
        return yamlfile.Loaded("trace", {"trace": dict(given)}, {})
    if is_written_out(given):
        return yamlfile.parse(f"trace: {given}", "--trace")
    loaded = yamlfile.load(Path(given))
    if "trace" in loaded.data or "kind" not in loaded.data:
        return loaded
    lines = {("trace", *place): line for place, line in loaded.lines.items()}
    return yamlfile.Loaded(loaded.file, {"trace": loaded.data}, lines)


def _worked_out(spec: Any, name: str, rows: tuple[Row, ...], wan: Wan, seed: int) -> LiveTrace:
    lasts_s, again_s = LONGEST_S, None
    if isinstance(spec, FileSpec):
        again_s = rows[-1].at_s if spec.repeat else None
        spec = spec.model_copy(update={"hold": True, "repeat": False})
    elif (every_s := getattr(spec, "every", None)) is not None:
        rounds = max(1, WORKED_OUT // max(1, len(covered(spec, wan))))
        lasts_s = again_s = min(LONGEST_S, rounds * every_s)
    return LiveTrace(name, timeline(wan, generate(spec, wan, seed, lasts_s, rows)), again_s or None)


class Tracing:
    """Plays one trace at a time. Its methods are for any thread."""

    def __init__(self, network: LiveNetwork, hub: Hub, seed: int, trace: LiveTrace | None) -> None:
        """`trace` is what `start` plays unless another one is given."""
        self._network, self._hub, self._seed, self._trace = network, hub, seed, trace
        self._lock = threading.Lock()
        self._player: Player | None = None
        self._end: threading.Timer | None = None

    @property
    def state(self) -> TraceState:
        """Whether one plays, and which."""
        return TraceState(self._player is not None, self._trace.name if self._trace else None)

    def read(self, given: Mapping[str, Any] | str) -> LiveTrace:
        """Without playing it."""
        return read_trace(_as_seen_here(given), self._network.wan, self._seed, elsewhere=True)

    def start(self, trace: LiveTrace | None) -> str:
        """Play it from its beginning; None: the one that was given before. RingroadError if there is none."""
        with self._lock:
            trace = trace or self._trace
            if trace is None:
                raise RingroadError("no trace has been given", "give one: ringroad trace FILE")
            self._stop()
            self._trace = trace
            self._play(trace)
            again = "" if trace.again_s is None else f"; it begins again every {format_duration(trace.again_s)}"
            return self._tell(f"trace {trace.name} plays{again}")

    def _play(self, trace: LiveTrace) -> None:
        player = Player(
            trace.instants,
            self._network.wan,
            _Rates(self._network),
            record=lambda kind, entry: None,
            crash=lambda dc: None,
            failed=self._failed,
        )
        player.prepare()
        player.start(time.monotonic())
        self._player = player
        if trace.again_s is not None:
            self._end = threading.Timer(trace.again_s, self._again, [player])
            self._end.daemon = True
            self._end.start()

    def _again(self, player: Player) -> None:
        with self._lock:
            if self._player is player and self._trace is not None:
                self._stop()
                self._play(self._trace)

    def stop(self) -> str:
        """Play no more; rates stay as they are."""
        with self._lock:
            if self._player is None:
                return "no trace plays"
            self._stop()
            return self._tell("the trace has stopped; links keep the rates that they have")

    def close(self) -> None:
        """As `stop`, without telling."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        player, self._player = self._player, None
        timer, self._end = self._end, None
        if timer is not None:
            timer.cancel()
        if player is not None:
            with suppress(RingroadError, OSError):  # told already, by `_failed`
                player.stop()

    def _failed(self, error: Exception) -> None:
        self._hub.publish(FaultEvent, f"the trace cannot go on: {error}", what="trace", targets=())

    def _tell(self, text: str) -> str:
        self._hub.publish(TraceEvent, text, trace=self.state)
        return text


def _as_seen_here(given: Mapping[str, Any] | str) -> Mapping[str, Any] | str:
    """The same, its file as it is seen from the kernel that the testbed runs on."""
    if isinstance(given, str):
        return given if is_written_out(given) else as_seen_here(given)
    path = given.get("path")
    return {**given, "path": as_seen_here(path)} if isinstance(path, str) else given


class _Rates:
    """A live network as a player sees it: of what a trace says only rates count, faults are made by hand."""

    def __init__(self, network: LiveNetwork) -> None:
        self._network = network

    def shape_many(self, changes: Mapping[Edge, EdgeProperties]) -> None:
        """Set the rates; whatever else links do stays."""
        self._network.set_rates({edge: properties.rate_bps for edge, properties in changes.items()}, "trace")

    def fail(self, link: str) -> None:
        """A trace has no faults."""
        raise InputError("a trace takes no link down", value=link)

    blackhole = heal = fail
