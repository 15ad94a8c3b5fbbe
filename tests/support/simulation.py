"""A planner and its switches, all in memory: events in, and as many messages worked on as a test wants."""

from __future__ import annotations

from openflow_table import PacketLooped, PacketLost, Switchboard
from wans import wiring_of

from controller.events import BatchConfirmed, DetoursDue, Event, PeriodElapsed, SwitchConnected
from controller.planner import Decision, Network, initial_state, step
from controller.tunnels import plan_tunnels
from controller.view import Pair, Policy, Route
from topologies import Wan


class Simulation:
    """One controller. `switches` may be those that another one has left behind."""

    def __init__(
        self,
        wan: Wan,
        policy: Policy,
        tunnels: int = 3,
        detours: bool = True,
        switches: Switchboard | None = None,
    ) -> None:
        self.wan, self.policy, self.tunnels = wan, policy, tunnels
        self.switches = switches or Switchboard(wiring_of(wan))
        self.network = Network(wan, self.switches.wiring, plan_tunnels(wan, tunnels))
        self.state = initial_state(self.network, policy, detours)

    def happen(self, event: Event, now: float = 0.0) -> Decision:
        self.state, decision = step(self.state, event, now)
        for batch in decision.batches:
            self.switches.send(batch)
        if self.state.owes_detours:
            self.happen(DetoursDue(), now)
        return decision

    def connect(self, site: str) -> None:
        """The switch of a site connects (again); whatever was on its way to it is lost."""
        self.switches.lose(site)
        self.happen(SwitchConnected(site, self.switches.ports_down(site), self.switches.held(site)))

    def work(self, site: str) -> None:
        finished = self.switches.work(site)
        if finished:
            self.happen(BatchConfirmed(finished))

    def settle(self) -> None:
        while busy := self.switches.busy():
            self.work(busy[0])

    def start(self) -> None:
        for site in self.wan.sites:
            self.connect(site.name)
        self.settle()

    def drain(self) -> None:
        """Enough periods for everything unused to be deleted."""
        for now in (100.0, 110.0, 120.0):
            self.happen(PeriodElapsed({}), now)
            self.settle()

    def route(self, pair: Pair) -> Route | None:
        """Where a packet of the pair goes now; None if it is lost. PacketLooped if it never ends."""
        try:
            return self.switches.trace(pair)
        except PacketLost:
            return None

    def loops(self) -> bool:
        try:
            for pair in self.state.wanted:
                self.route(pair)
        except PacketLooped:
            return True
        return False

    def restarted(self, tunnels: int | None = None) -> Simulation:
        """Another controller over the same switches, which knows nothing; what was on its way is lost."""
        for site in self.network.sites:
            self.switches.lose(site)
        return Simulation(self.wan, self.policy, tunnels or self.tunnels, self.state.detouring, self.switches)


def started(wan: Wan, policy: Policy, tunnels: int = 3, detours: bool = True) -> Simulation:
    simulation = Simulation(wan, policy, tunnels, detours)
    simulation.start()
    assert simulation.state.ready
    return simulation
