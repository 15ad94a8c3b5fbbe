"""The experiment that the options of `ringroad exec` describe, checked as one in a file is.

What a program makes of its collectives is its own affair, so the keys of an experiment that describe collectives are
filled in here with what makes an arm as long as it may take; nothing runs by them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from testbed.dynamics.faults import CrashSpec
from testbed.dynamics.traces import size_faults
from testbed.experiment import Experiment, load_experiment, read_experiment
from topologies.errors import InputError
from topologies.units import parse_duration_s

OPTIONS = {
    "wan": "--wan",
    "trace": "--trace",
    "faults": "--fault",
    "seed": "--trace-seed",
    "t_wan": "--t-wan",
    "reorder_every": "--reorder-every",
    "agent.policy": "--policy",
    "agent.source": "--source",
    "controller.policy": "--controller-policy",
    "arms": "--arm",
    "blocks": "--blocks",
    "timeouts.arm": "--timeout",
    "pacing": "--timeout",
}
"""The option that each key of an experiment comes from."""

_NAME = "options"
REORDER_EVERY = 5
MEMORY_BYTES = 2**62
"""A program's memory is its own affair."""


def timeout_s(text: str) -> float:
    """The value of `--timeout`. InputError unless it is a time between a second and a day."""
    try:
        found = parse_duration_s(text)
        if not 1 <= found <= 24 * 3600:
            raise ValueError("the longest that the program may take is between 1s and 24h")
    except ValueError as error:
        raise InputError(str(error), place="--timeout", value=text, remedy="write it like 30min") from error
    return found


def from_file(file: Path, arms: Sequence[str] | None, blocks: int | None, longest_s: float) -> Experiment:
    """The experiment in a file, whose program may take `longest_s`. InputError as for `ringroad run`."""
    experiment = load_experiment(file).overridden(blocks, arms)
    faults = list(size_faults(experiment.trace, experiment.wan, longest_s, experiment.rows))
    if faults:
        raise InputError(faults[0].message, file=str(file), place="trace", remedy=faults[0].remedy)
    back = next(
        (fault.duration for fault in experiment.faults if isinstance(fault, CrashSpec) and fault.duration), None
    )
    if back is not None:
        raise _no_return("faults", back, str(file))
    return replace(experiment, expected_arm_s=longest_s, timeouts=replace(experiment.timeouts, arm_s=longest_s))


def from_options(
    wan: str, arms: Sequence[str], longest_s: float, *, trace: str | None, faults: Sequence[str], **given: Any
) -> Experiment:
    """The experiment that options describe; `given` are keys of the file, dotted where they are nested, None: default.

    `trace` is a kind, a mapping as in an experiment file, or the path of a trace file. InputError names the option.
    """
    every = given.get("reorder_every") or REORDER_EVERY
    mappings = [_mapping(fault, "--fault") for fault in faults]
    for number, fault in enumerate(mappings):
        if fault.get("kind") == "crash" and fault.get("for") is not None:
            raise _no_return(f"--fault: [{number}].for", fault["for"])
    collectives = every + 1
    keys: dict[str, Any] = {
        "name": "exec",
        "wan": wan,
        "arms": list(arms),
        "trace": "constant" if trace is None else _trace(trace),
        "faults": mappings,
        "reorder_every": every,
        "payload": "1MiB",
        "collectives": collectives,
        "pacing": {"every": math.floor(1000 * longest_s / collectives) / 1000},
        "timeouts": {"arm": longest_s},
    }
    for name, value in given.items():
        if value is not None:
            _put(keys, name.split("."), value)
    text = yaml.safe_dump(keys, sort_keys=False, allow_unicode=True)
    try:
        return read_experiment(text, Path(_NAME), MEMORY_BYTES)
    except InputError as error:
        raise InputError(in_words_of_options(error.message), remedy=error.remedy) from error


def _no_return(place: str, value: object, file: str = "") -> InputError:
    return InputError(
        "a program's processes do not come back",
        file=file,
        place=place,
        value=value,
        remedy="leave `for` out",
    )


def in_words_of_options(message: str) -> str:
    """What is wrong in `options:5: trace.every` is wrong in `--trace: every`."""
    keys = "|".join(re.escape(key) for key in sorted(OPTIONS, key=len, reverse=True))

    def option(found: re.Match[str]) -> str:
        rest = found[2].strip(".")
        return f"{OPTIONS[found[1]]}: {rest}: " if rest else f"{OPTIONS[found[1]]}: "

    message = re.sub(rf"\b{_NAME}:\d+: ({keys})((?:\.[\w>-]+|\[\d+\])*): ", option, message)
    return re.sub(rf"^{_NAME}(:\d+)?: ", "", message)


def _put(keys: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        keys = keys.setdefault(name, {})
    keys[path[-1]] = value


def _trace(text: str) -> Any:
    if text.lstrip().startswith("{"):
        return _mapping(text, "--trace")
    if os.sep in text or Path(text).suffix or Path(text).exists():
        return {"kind": "file", "path": text}
    return text


def _mapping(text: str, option: str) -> Mapping[str, Any]:
    example = "{kind: redraw, every: 10s, low: 15mbit, high: 60mbit}"
    if option == "--fault":
        example = "{at: 20s, kind: down, link: tokyo-oregon, for: 5s}"
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError("not YAML", place=option, value=text, remedy=f"write it like {example!r}") from error
    if not isinstance(found, dict):
        raise InputError("not a mapping", place=option, value=text, remedy=f"write it like {example!r}")
    return found
