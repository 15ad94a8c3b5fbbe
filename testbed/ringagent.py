"""The ring agent of an experiment: its settings, and what is wrong with those that a file gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from testbed.experimentfile import ExperimentSpec
from topologies.errors import Fault, did_you_mean
from workers.policies import NEED_LINKS, POLICIES
from workers.schedules import PLANNED, SCHEDULES


@dataclass(frozen=True)
class Agent:
    """The ring agent: where its bandwidths come from, its policy, the gain it moves for (0.1 = 10 %), the schedule.

    `schedule` is one of `workers.schedules`; one that is planned for links runs in arms that have an agent to plan it.
    """

    source: Literal["probe", "passive", "feed", "oracle"]
    policy: str
    margin: float
    schedule: str = "ring"

    def schedule_in(self, reorder_every: int) -> str:
        """What the collectives of an arm run: a ring where no agent is there to plan more."""
        return self.schedule if reorder_every or self.schedule not in PLANNED else "ring"

    def labels(self) -> list[str]:
        """What a reader of any result has to know of the schedule."""
        if self.schedule == "ring":
            return []
        planned = " in the arms that have a ring agent" if self.schedule in PLANNED else ""
        return [f"schedule: {self.schedule}{planned}"]


def agent_faults(spec: ExperimentSpec) -> Iterator[Fault]:
    """Unknown names, and settings that do not go together."""
    if spec.agent.policy not in POLICIES and ":" not in spec.agent.policy:
        remedy = did_you_mean(spec.agent.policy, list(POLICIES), "give your own as module:function")
        yield Fault(("agent", "policy"), "no such ring policy", spec.agent.policy, remedy)
    if spec.agent.policy in NEED_LINKS and spec.agent.source not in ("feed", "oracle"):
        message = "measurements between pairs show neither links nor routes, and this policy needs both"
        yield Fault(("agent", "policy"), message, spec.agent.policy, "give source: feed, or policy: bottleneck")
    if spec.agent.policy == "clairvoyant" and spec.agent.source == "feed":
        yield Fault(("agent", "policy"), "the feed does not know the future", "clairvoyant", "give source: oracle")
    name = spec.agent.schedule
    if name not in SCHEDULES and ":" not in name:
        remedy = did_you_mean(name, list(SCHEDULES), "give your own as module:function")
        yield Fault(("agent", "schedule"), "no such schedule", name, remedy)
    if name != "ring" and spec.controller.demands == "announced":
        message = "what is announced to the WAN controller are the flows of a ring"
        yield Fault(("agent", "schedule"), message, name, "give controller: {demands: measured}, or schedule: ring")
