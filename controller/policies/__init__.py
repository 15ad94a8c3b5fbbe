"""Path policies: a view of the network in, a routing out. Pure."""

from __future__ import annotations

from collections.abc import Callable

from controller.policies.shortest import Shortest
from controller.policies.widest import Widest
from controller.settings import ControllerSettings
from controller.view import Policy
from topologies.errors import InputError, did_you_mean

_MAKERS: dict[str, Callable[[ControllerSettings], Policy]] = {
    "shortest": lambda settings: Shortest(),
    "widest": lambda settings: Widest(settings.margin),
}

NAMES = tuple(_MAKERS)


def make_policy(name: str, settings: ControllerSettings) -> Policy:
    """The policy of that name. InputError with the known names if there is none."""
    if name not in _MAKERS:
        raise InputError("no such path policy", value=name, remedy=did_you_mean(name, list(NAMES)))
    return _MAKERS[name](settings)
