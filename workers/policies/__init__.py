"""Ring policies: a view of the collective in, a ring order out. Pure."""

import inspect
from typing import Any

from topologies.errors import InputError
from workers.policies.bottleneck import bottleneck
from workers.policies.cheapest import cheapest
from workers.policies.clairvoyant import clairvoyant
from workers.policies.placebo import fixed, random
from workers.policies.shared import shared
from workers.policies.view import LinksUnknown, Policy, RingView, needs_links
from workers.registry import find

POLICIES: dict[str, Policy] = {
    "bottleneck": bottleneck,
    "shared": shared,
    "sum": cheapest,
    "clairvoyant": clairvoyant,
    "fixed": fixed,
    "random": random,
}

NEED_LINKS = frozenset({"shared", "clairvoyant"})
"""Policies that cannot work on measurements between pairs alone."""


def policy(name: str) -> Policy:
    """The policy of that name, or a person's own: `module:function`, or `module:Class` whose objects have `decide`.

    InputError if there is none.
    """
    found: Any = find(POLICIES, name, "ring policy")
    if not inspect.isclass(found):
        return found
    decide = getattr(found, "decide", None)
    if decide is None:
        raise InputError("this ring policy has no method decide(view)", value=name, remedy="give it one, or a function")
    return found().decide


__all__ = ["NEED_LINKS", "POLICIES", "LinksUnknown", "Policy", "RingView", "needs_links", "policy"]
