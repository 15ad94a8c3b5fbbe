"""Finds what a job names: an entry of ours, or a person's own as `module:function`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeVar

from topologies.errors import InputError, did_you_mean

Entry = TypeVar("Entry")


def find(known: Mapping[str, Entry], name: str, what: str) -> Entry:
    """The entry of that name, or what `module:function` names. InputError if there is none.

    `what` says what is looked for, as in "ring policy".
    """
    if name in known:
        return known[name]
    module_name, separator, attribute = name.partition(":")
    if not separator:
        raise InputError(f"no such {what}", value=name, remedy=did_you_mean(name, list(known)))
    try:
        found: Any = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = f"{error}; write module:function, importable where the runner runs"
        raise InputError(f"no such {what}", value=name, remedy=remedy) from error
    if not callable(found):
        raise InputError(f"this {what} cannot be called", value=name, remedy="name a function")
    return found
