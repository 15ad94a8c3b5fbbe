"""The times of training steps, out of what a script prints. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from topologies.errors import InputError

STEP = r"(?i)\bstep[ :=#]*\d+\b.*?(?<![\w.])(\d+(?:\.\d+)?)\s*(ms|s)\b"
"""`step 12  0.532 s`, `step: 12, 532 ms`: the first quantity of time after a numbered step."""


def step_pattern(text: str) -> re.Pattern[str]:
    """A pattern of a person's. InputError if it is no regular expression, or has no group to find the time in."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"not a regular expression: {error}", place="--step", value=text) from error
    if not pattern.groups:
        remedy = r"put the time in a group, as in 'took (\d+\.\d+) s'; a second group may hold s or ms"
        raise InputError("finds no time", place="--step", value=text, remedy=remedy)
    return pattern


def step_times_s(lines: Iterable[str], pattern: re.Pattern[str]) -> list[float]:
    """Seconds of each step. Group 1 is the time, group 2, where there is one, its unit (s unless it is ms)."""
    times = []
    for line in lines:
        found = pattern.search(line)
        if found is None:
            continue
        try:
            time = float(found[1])
        except (TypeError, ValueError):
            continue
        times.append(time / 1000 if pattern.groups > 1 and found[2] == "ms" else time)
    return times
