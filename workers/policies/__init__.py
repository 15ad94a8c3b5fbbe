"""Ring policies: a view of the collective in, a ring order out. Pure."""

from workers.policies.bottleneck import bottleneck
from workers.policies.placebo import fixed, random
from workers.policies.view import Policy, RingView

POLICIES: dict[str, Policy] = {"bottleneck": bottleneck, "fixed": fixed, "random": random}

__all__ = ["POLICIES", "Policy", "RingView"]
