"""The WANs that come with Ringroad, by name. They are ordinary WAN files: copy one to begin your own."""

from __future__ import annotations

from topologies.errors import InputError, did_you_mean
from topologies.model import Wan
from topologies.wanfile import builtin_files, load_wan


def builtin_names() -> list[str]:
    """Names of all built-in WANs, sorted."""
    return list(builtin_files())


def builtin(name: str) -> Wan:
    """The built-in WAN of that name. InputError with the nearest name if there is none."""
    if name not in builtin_files():
        raise InputError("no built-in WAN has this name", value=name, remedy=did_you_mean(name, builtin_names()))
    return load_wan(name)
