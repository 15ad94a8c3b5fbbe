"""Ring policies: a view of the collective in, a ring order out. Pure."""

from workers.policies.bottleneck import bottleneck
from workers.policies.cheapest import cheapest
from workers.policies.clairvoyant import clairvoyant
from workers.policies.placebo import fixed, random
from workers.policies.shared import shared
from workers.policies.view import LinksUnknown, Policy, RingView

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

__all__ = ["NEED_LINKS", "POLICIES", "LinksUnknown", "Policy", "RingView"]
