"""The fields that files of people are made of: rates, durations, sizes, probabilities, names, with their units.

For pydantic models; each turns what a person writes into plain SI values or says what would be right.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from topologies.errors import InputError
from topologies.model import MAX_NAME_LENGTH, MAX_RATE_BPS, MIN_RATE_BPS, check_name
from topologies.units import parse_duration_s, parse_rate_bps, parse_size_bytes

MAX_DURATION_S = 1000 * 3600.0
"""Beyond it a wrong unit is more likely than patience, and clocks and timers of the system would overflow."""

MAX_SIZE_BYTES = 2**50


class Strict(BaseModel):
    """A part of a file: no unknown keys, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _rate(value: object) -> float:
    rate_bps = parse_rate_bps(value)
    if not MIN_RATE_BPS <= rate_bps <= MAX_RATE_BPS:
        raise ValueError("a rate lies between 8 kbit/s and 1 Tbit/s; write it with its unit, as in 100mbit")
    return rate_bps


def _duration(value: object) -> float:
    duration_s = parse_duration_s(value)
    if duration_s < 0:
        raise ValueError("a time is not negative; write it like 25ms")
    if duration_s > MAX_DURATION_S:
        raise ValueError("a time is at most 1000 h; write it with its unit, as in 25ms")
    return duration_s


def _positive_duration(value: object) -> float:
    duration_s = _duration(value)
    if duration_s <= 0:
        raise ValueError("a time must be above zero here; write it like 25ms")
    return duration_s


def _size(value: object) -> int:
    size_bytes = parse_size_bytes(value)
    if size_bytes <= 0:
        raise ValueError("a size must be above zero; write it like 8MiB")
    if size_bytes > MAX_SIZE_BYTES:
        raise ValueError("a size is at most 1 PiB; write it with its unit, as in 8MiB")
    return size_bytes


def _probability(value: object) -> float:
    remedy = "; write it from 0 to below 1, as 0.001, or as 0.1%"
    percent = isinstance(value, str) and value.strip().endswith("%")
    try:
        number = float(value.strip().removesuffix("%")) / 100 if percent else value  # type: ignore[union-attr]
    except ValueError:
        raise ValueError(f"this is not a probability{remedy}") from None
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < 1:
        raise ValueError(f"this is not a probability{remedy}")
    return float(number)


def _name(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        check_name(value, "thing")
    except InputError as error:
        raise ValueError(
            f"a name is one line of 1 to {MAX_NAME_LENGTH} characters without spaces at its ends"
        ) from error
    return value


def _schema(kind: str, example: Any, description: str) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", kind], "examples": [example], "description": description})


Rate = Annotated[float, BeforeValidator(_rate), _schema("number", "100mbit", "rate with unit; a number is bit/s")]
"""Bit/s, from 8 kbit/s to 1 Tbit/s."""

Duration = Annotated[float, BeforeValidator(_duration), _schema("number", "25ms", "time with unit; a number is s")]
"""Seconds, 0 or more."""

PositiveDuration = Annotated[
    float, BeforeValidator(_positive_duration), _schema("number", "3min", "time with unit; a number is s")
]
"""Seconds, above 0."""

Size = Annotated[int, BeforeValidator(_size), _schema("integer", "8MiB", "size with unit; a number is bytes")]
"""Bytes, above 0."""

Probability = Annotated[float, BeforeValidator(_probability), _schema("number", 0.001, "from 0 to below 1")]
"""0 ≤ p < 1."""

Name = Annotated[str, BeforeValidator(_name)]
"""Free text on one line, for people."""
