"""Asks a policy, and holds on to the present routing when it fails: a person's policy cannot take the controller down.

Pure, as far as the policy is.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from controller.calm import Calm
from controller.view import Policy, Routing, View


@dataclass(frozen=True)
class Choice:
    """The routing to put into force, what calm remembers, and what was wrong with the policy's answer."""

    routing: Routing
    calm: Calm
    fault: str = ""


def choose(policy: Policy, view: View, calm: Calm, now: float, at_once: bool = False) -> Choice:
    """What the policy wants, as far as `calm` lets it; the present routing and a `fault` where the policy fails."""
    try:
        wanted = policy.decide(view, now)
        fault = _fault_of(view, wanted)
    except Exception as error:  # Whatever a person's code does.
        fault = f"{type(error).__name__}: {error} ({_place(error)})"
    if fault:
        return Choice(view.routing, calm, f"the policy {type(policy).__name__} failed, routes stay: {fault}")
    after, routing = calm.after(view, wanted, now, at_once)
    return Choice(routing, after)


def _fault_of(view: View, wanted: object) -> str:
    if not isinstance(wanted, Mapping):
        return f"it answered with a {type(wanted).__name__} instead of a route for each pair"
    for pair, routes in view.candidates.items():
        if pair not in wanted:
            return f"no route for {'-'.join(pair)}"
        if wanted[pair] not in routes and wanted[pair] != view.routing[pair]:
            return f"{wanted[pair]!r} is not among the candidates of {'-'.join(pair)}"
    unknown = next((pair for pair in wanted if pair not in view.candidates), None)
    return "" if unknown is None else f"a route for {unknown!r}, which is no pair"


def _place(error: Exception) -> str:
    """Where it was raised, as file:line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
