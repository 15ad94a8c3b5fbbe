"""A scenario: a timed list of what people do to a live testbed, checked whole before anything is done.

    name: one link after the other
    steps:
      - {at: 0s, op: arm, arm: wan, say: Paths move. Watch tokyo-oregon.}
      - {at: 10s, op: shape, link: tokyo-oregon, rate: 15mbit}
      - {at: 20s, op: fail, link: tokyo-oregon}

Each step is a request of the protocol with a time; `say` is for who watches, and may stand alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from testbed.live.client import Client
from testbed.live.protocol import is_written_out
from testbed.live.requests import KINDS, Down
from topologies import yamlfile
from topologies.errors import Fault, RingroadError, did_you_mean
from topologies.fields import Duration, Name, Strict
from topologies.wording import faults_of
from topologies.yamlfile import Loaded

CHANGES = {op: kind for op, kind in KINDS.items() if kind.changes and kind is not Down}
"""What a scenario may do."""

_TIME: TypeAdapter[float] = TypeAdapter(Duration)


class ScenarioFile(Strict):
    """The whole file."""

    name: Name = "scenario"
    description: str = ""
    steps: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=10_000)]


@dataclass(frozen=True)
class Step:
    """At `at_s` from the start: say something, then make a request (None: nothing more)."""

    at_s: float
    say: str
    request: dict[str, Any] | None
    index: int = 0


@dataclass(frozen=True)
class Scenario:
    """Steps by time."""

    name: str
    steps: tuple[Step, ...]
    loaded: Loaded


def load_scenario(path: Path) -> Scenario:
    """The scenario in a file. InputError lists all that is wrong with its shape; names are checked by `check`."""
    loaded = yamlfile.load(path)
    file = yamlfile.validate(ScenarioFile, loaded)
    faults: list[Fault] = []
    steps = [_step(index, plain, path.parent, faults) for index, plain in enumerate(file.steps)]
    if faults:
        raise loaded.error(faults)
    return Scenario(file.name, tuple(sorted(steps, key=lambda step: step.at_s)), loaded)


def check(scenario: Scenario, testbed: Client) -> None:
    """Ask the running testbed whether it could do each step. InputError lists all that it could not."""
    faults = []
    for step in scenario.steps:
        if step.request is not None:
            try:
                testbed.ask("check", request=step.request)
            except RingroadError as error:
                faults.append(Fault(("steps", step.index), error.message, remedy=error.remedy))
    if faults:
        raise scenario.loaded.error(faults)


def play(scenario: Scenario, testbed: Client, tell: Callable[[Step, str], None]) -> None:
    """Do it; blocks until the last step is done. `tell` gets each step with what it did ("" where it only says).

    What cannot be done when its time has come ends it: RingroadError names the step.
    """
    start = time.monotonic()
    for step in scenario.steps:
        time.sleep(max(0.0, start + step.at_s - time.monotonic()))
        if step.request is None:
            tell(step, "")
            continue
        fields = {name: value for name, value in step.request.items() if name != "op"}
        try:
            tell(step, testbed.change(step.request["op"], **fields).did)
        except RingroadError as error:
            raise RingroadError(f"{scenario.name}, step {step.index + 1}: {error.message}", error.remedy) from error


def _step(index: int, plain: dict[str, Any], folder: Path, faults: list[Fault]) -> Step:
    place = ("steps", index)
    say, request = plain.get("say", ""), {k: v for k, v in plain.items() if k not in ("at", "say")}
    at_s = 0.0
    if "at" not in plain:
        faults.append(Fault(place, "this step has no time", remedy="add at: 5s"))
    else:
        try:
            at_s = _TIME.validate_python(plain["at"])
        except ValidationError as error:
            message, _, remedy = error.errors()[0]["msg"].removeprefix("Value error, ").partition("; ")
            faults.append(Fault((*place, "at"), message, plain["at"], remedy))
    if not isinstance(say, str):
        faults.append(Fault((*place, "say"), "this is not text", say, "put it in quotes"))
    if request or not say:
        faults += list(_request_faults(request, place))
    if request.get("op") == "trace":
        request |= _from_here(request.get("trace"), folder)
    return Step(at_s, str(say), request or None, index)


def _request_faults(request: dict[str, Any], place: tuple[str, int]) -> Iterator[Fault]:
    op = request.get("op")
    kind = CHANGES.get(op) if isinstance(op, str) else None
    if kind is None:
        remedy = did_you_mean(op, list(CHANGES)) if isinstance(op, str) else f"give op: {', '.join(CHANGES)}"
        yield Fault((*place, "op"), "no such thing to do", op, remedy)
        return
    try:
        kind.model_validate(request)
    except ValidationError as error:
        for fault in faults_of(error, request, kind):
            yield Fault((*place, *fault.place), fault.message, fault.value, fault.remedy)


def _from_here(trace: object, folder: Path) -> dict[str, Any]:
    """A trace's file relative to the scenario's folder; one that is written out stays, but for the file it names."""
    if isinstance(trace, dict) and isinstance(trace.get("path"), str):
        return {"trace": trace | {"path": str((folder / trace["path"]).absolute())}}
    if isinstance(trace, str) and not is_written_out(trace):
        return {"trace": str((folder / trace).absolute())}
    return {}
