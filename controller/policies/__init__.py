"""Path policies: a view of the network in, a routing out. Pure. Ours by name, a person's own as `module:Class`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from controller.policies.ecmp import Ecmp
from controller.policies.shortest import Shortest
from controller.policies.widest import Widest
from controller.settings import ControllerSettings
from controller.view import Policy
from topologies.errors import InputError, did_you_mean


def _maxmin(settings: ControllerSettings) -> Policy:
    from controller.policies.maxmin import MaxMin  # A second: scipy and numba.

    return MaxMin(settings.margin)


_MAKERS: dict[str, Callable[[ControllerSettings], Policy]] = {
    "shortest": lambda settings: Shortest(),
    "widest": lambda settings: Widest(settings.margin),
    "maxmin": _maxmin,
    "ecmp": lambda settings: Ecmp(),
}

NAMES = tuple(_MAKERS)


def make_policy(name: str, settings: ControllerSettings) -> Policy:
    """The policy of that name, or an object of the class that `module:Class` names.

    Such a class is called with the settings if it takes an argument. InputError says what is wrong with a name.
    """
    if ":" in name:
        return _own(name, settings)
    if name not in _MAKERS:
        remedy = did_you_mean(name, list(NAMES), "give your own as module:Class")
        raise InputError("no such path policy", value=name, remedy=remedy)
    return _MAKERS[name](settings)


def prepare(name: str) -> None:
    """Load what a policy needs, for seconds if need be, before `make_policy` and while nobody waits."""
    if name == "maxmin":
        from controller.policies.fairsearch import warm_up

        warm_up()


def _own(name: str, settings: ControllerSettings) -> Policy:
    made = _call(name, _find(name), settings)
    decide = getattr(made, "decide", None)
    if not callable(decide) or not _takes(decide, "view", 0.0):
        raise InputError(
            "this path policy has no method decide(view, now)", value=name, remedy="see controller/view.py"
        )
    return made


def _find(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    try:
        with _importable_from_here():
            module = import_module(module_name)
    except Exception as error:  # Whatever a person's module does while it is imported.
        remedy = "write module:Class, importable from the folder where `ringroad` is started"
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"the path policy's module cannot be imported: {reason}", value=name, remedy=remedy) from error
    found = getattr(module, attribute, None)
    if found is None:
        remedy = did_you_mean(attribute, [known for known in vars(module) if not known.startswith("_")])
        raise InputError(f"there is no {attribute!r} in {module_name}", value=name, remedy=remedy)
    return found


@contextmanager
def _importable_from_here() -> Iterator[None]:
    """The present folder is looked into, as by `python -m`, also where an installed command is running."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _call(name: str, maker: Any, settings: ControllerSettings) -> Any:
    arguments = (settings,) if _takes(maker, settings) else ()
    if not _takes(maker, *arguments):
        remedy = "let it take nothing, or the controller's settings"
        raise InputError("this path policy cannot be made", value=name, remedy=remedy)
    try:
        return maker(*arguments)
    except Exception as error:  # As above.
        raise InputError(f"this path policy cannot be made: {type(error).__name__}: {error}", value=name) from error


def _takes(called: Any, *arguments: Any) -> bool:
    """Whether it can be called with these arguments, by its signature."""
    try:
        inspect.signature(called).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True
