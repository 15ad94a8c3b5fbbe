"""Quantities with units, as people write them: `100mbit`, `25ms`, `8MiB`. Bytes and bits never meet unnamed.

SI prefixes are decimal (100mbit = 1e8 bit/s, 1MB = 1e6 bytes); only Ki, Mi, Gi are binary.
"""

from __future__ import annotations

import math
import re

from topologies.errors import shown

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ/]*)\s*")

_RATE = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_SIZE = {"B": 1, "KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_TIME = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def _split(text: str, example: str) -> tuple[float, str]:
    found = _NUMBER.fullmatch(text)
    if not found:
        raise ValueError(f"{shown(text)} is not a number with a unit; write it like {example}")
    if not found[2]:
        raise ValueError(f"{shown(text)} has no unit; write it like {example}")
    return _finite(float(found[1]), example), found[2]


def _number(value: object, example: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is not a quantity; write it like {example}")
    return _finite(value, example)


def _finite(value: float, example: str) -> float:
    """`value` as a float. ValueError where it is none: infinite, not a number, or an integer beyond all floats."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{shown(value)} is not a finite quantity; write it like {example}")
    return number


def parse_rate_bps(value: object) -> float:
    """Rate in bit/s from `100mbit`, `1.5Gbit/s`, `20Mbps`, or a plain number of bit/s. Raises ValueError."""
    if not isinstance(value, str):
        return _number(value, "100mbit")
    number, unit = _split(value, "100mbit")
    key = unit.lower().removesuffix("/s")
    if key.endswith("bps") and not unit.endswith("Bps"):
        key = key.removesuffix("bps") + "bit"
    if key not in _RATE:
        raise ValueError(f"{shown(unit)} is not a unit of rate; use bit, kbit, mbit or gbit, as in 100mbit")
    return _finite(number * _RATE[key], "100mbit")


def parse_size_bytes(value: object) -> int:
    """Size in bytes from `8MiB`, `64KB`, or a plain number of bytes. Raises ValueError."""
    if not isinstance(value, str):
        number = _number(value, "8MiB")
    else:
        number, unit = _split(value, "8MiB")
        if unit not in _SIZE:
            raise ValueError(f"{shown(unit)} is not a unit of size; use B, KB, MB, KiB, MiB or GiB, as in 8MiB")
        number = _finite(number * _SIZE[unit], "8MiB")
    if number != int(number):
        raise ValueError(f"{shown(value)} is not a whole number of bytes")
    return int(number)


def parse_duration_s(value: object) -> float:
    """Duration in seconds from `25ms`, `3min`, or a plain number of seconds. Raises ValueError."""
    if not isinstance(value, str):
        return _number(value, "25ms")
    number, unit = _split(value, "25ms")
    if unit not in _TIME:
        raise ValueError(f"{shown(unit)} is not a unit of time; use us, ms, s, min or h, as in 25ms")
    return _finite(number * _TIME[unit], "25ms")


def format_rate(rate_bps: float) -> str:
    """`100 Mbit/s`: for people."""
    for name, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if abs(rate_bps) >= factor:
            return f"{rate_bps / factor:.4g} {name}"
    return f"{rate_bps:.4g} bit/s"


def format_size(size_bytes: int) -> str:
    """`8 MiB` where it is a round binary figure, else decimal: for people."""
    for name, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {name}"
    for name, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {name}"
    return f"{size_bytes} B"


def format_duration(duration_s: float) -> str:
    """`3 min 05 s`, `2.03 s`, `330 µs`: for people."""
    if duration_s >= 90:
        return f"{int(duration_s // 60)} min {int(duration_s % 60):02d} s"
    for name, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(duration_s) >= factor:
            return f"{duration_s / factor:.3g} {name}"
    return f"{duration_s:.3g} s"
