"""Figures of the WAN controller's decisions alone: no switch, no network, the machine's arithmetic."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx
import numpy

from benchmarks.figure import Figure, Reach, figure, percentile
from controller.engine import Engine
from controller.policies import prepare
from controller.policies.fairsearch import solve
from controller.policies.fairshare import problem_of
from controller.policies.maxmin import MaxMin
from controller.rules import Batch
from controller.settings import ControllerConfig, ControllerSettings, HostPort, Wiring
from controller.tunnels import plan_tunnels
from controller.view import Pair, View
from topologies.model import EdgeProperties, Link, Site, Wan
from topologies.wanfile import load_wan

RINGS = 200
RATES: dict[str, Callable[[random.Random], float]] = {
    "lognormal rates": lambda stream: 20e6 * stream.lognormvariate(0, 0.5),
    "equal rates": lambda stream: 100e6,
}
TUNNELS = 4
SITES, LINKS = 100, 400
CHANGES = 5


class InstantSwitches:
    """Switches that do at once whatever they are told, and say so when asked to `catch_up`."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.deferred: list[Callable[[], None]] = []

    def send(self, batch: Batch) -> None:
        """As `Switches.send`."""
        self.batches.append(batch)

    def defer(self, callback: Callable[[], None]) -> None:
        """As `Switches.defer`."""
        self.deferred.append(callback)

    def wake(self, after_s: float, callback: Callable[[], None]) -> None:
        """As `Switches.wake`; nothing is waited for here."""

    def set_period(self, period_s: float) -> None:
        """As `Switches.set_period`; there are no counters to read."""

    def catch_up(self, engine: Engine) -> None:
        """Confirm everything that was sent, and what the engine sends upon it."""
        while self.batches or self.deferred:
            batches, self.batches = self.batches, []
            deferred, self.deferred = self.deferred, []
            for batch in batches:
                engine.confirmed(batch)
            for callback in deferred:
                callback()


def maxmin_on_twelve_sites() -> Iterator[Figure]:
    """Paths for rings over the 12 sites of b4: how soon does maxmin decide, and is it proved?"""
    prepare("maxmin")
    view = _view(load_wan("b4"))
    for rates, draw in RATES.items():
        stream = random.Random(1)
        took_s, proved = [], 0
        for _ in range(RINGS):
            drawn = {edge: draw(stream) for edge in view.capacities_bps}
            ring = replace(view, capacities_bps=drawn, active=_ring(stream, view))
            begun = time.perf_counter()
            MaxMin().decide(ring, 0.0)
            took_s.append(time.perf_counter() - begun)
            proved += _is_proved(ring)
        against = f"{RINGS} random rings on b4, 12 pairs that send, {TUNNELS} paths each, {rates}"
        name = "maxmin, 12 sites, 12 active pairs"
        yield figure(f"{name}, median", percentile(took_s, 0.5) * 1e3, "ms", against, Reach(at_most=20))
        yield figure(f"{name}, p99", percentile(took_s, 0.99) * 1e3, "ms", against, Reach(at_most=20))
        yield figure(f"{name}, proved optimal", proved / RINGS, "of decisions", against, Reach(at_least=1))


def all_pairs_widest() -> Iterator[Figure]:
    """100 sites, 400 links: every capacity changes at once; widest decides on all pairs and fake switches confirm."""
    wan = random_wan(SITES, LINKS, seed=1)
    begun = time.perf_counter()
    engine, switches = _started(wan)
    started_s = time.perf_counter() - begun
    gc.collect()
    gc.freeze()  # As the process does, in which all this lives on.
    stream = random.Random(1)
    took_s = []
    for _ in range(CHANGES):
        rates = {edge: stream.uniform(10e6, 100e6) for edge in wan.edges}
        begun = time.perf_counter()
        engine.capacity(rates, time.monotonic())
        switches.catch_up(engine)
        took_s.append(time.perf_counter() - begun)
    pairs = len(engine.state.wanted)
    against = f"{pairs} pairs, {TUNNELS} tunnels each, every capacity drawn anew {CHANGES} times; slowest"
    name = f"{SITES} sites, {LINKS} links, all-pairs widest"
    yield figure(f"{name}, decided and confirmed", max(took_s), "s", against, Reach(at_most=1))
    yield figure(f"{name}, start", started_s, "s", "tunnels and detours planned, every rule confirmed", Reach())
    begun = time.perf_counter()
    plan_tunnels(wan, TUNNELS)
    planned_s = time.perf_counter() - begun
    yield figure(f"{name}, tunnels planned", planned_s, "s", f"{pairs} pairs, {TUNNELS} paths each", Reach(at_most=10))


def random_wan(sites: int, links: int, seed: int) -> Wan:
    """A connected random graph; 10 to 100 Mbit/s and 1 to 30 ms, each direction for itself."""
    stream = random.Random(seed)
    graph = networkx.gnm_random_graph(sites, links, seed)
    while not networkx.is_connected(graph):
        graph = networkx.gnm_random_graph(sites, links, stream.getrandbits(32))

    def _properties() -> EdgeProperties:
        return EdgeProperties(stream.uniform(10e6, 100e6), stream.uniform(0.001, 0.030))

    names = [f"s{number}" for number in range(sites)]
    joined = (Link(names[a], names[b], _properties(), _properties()) for a, b in graph.edges)
    return Wan(f"random {sites}", tuple(Site(name) for name in names), tuple(joined))


def _view(wan: Wan) -> View:
    plan = plan_tunnels(wan, TUNNELS)
    candidates = {pair: tuple(tunnel.route for tunnel in tunnels) for pair, tunnels in plan.tunnels.items()}
    rates = {edge: properties.rate_bps for edge, properties in wan.edges.items()}
    routing = {pair: routes[0] for pair, routes in candidates.items()}
    return View(rates, frozenset(), candidates, plan.lengths, routing, frozenset())


def _ring(stream: random.Random, view: View) -> frozenset[Pair]:
    """A random ring over all sites."""
    order = sorted({site for pair in view.candidates for site in pair})
    stream.shuffle(order)
    return frozenset(zip(order, order[1:] + order[:1], strict=True))


def _is_proved(view: View) -> bool:
    active = [pair for pair in view.candidates if pair in view.active]
    problem = problem_of([view.candidates[pair] for pair in active], view.capacities_bps)
    return solve(problem, numpy.array([choices[0] for choices in problem.choices])).exact


def _started(wan: Wan) -> tuple[Engine, InstantSwitches]:
    """An engine whose switches are all there with every rule installed."""
    settings = ControllerSettings("widest", tunnels=TUNNELS, dwell_s=0.0)
    config = ControllerConfig(wan, wiring_of(wan), Path("/none"), settings)
    switches = InstantSwitches()
    engine = Engine(config, switches, _discard)
    for site in wan.sites:
        engine.connected(site.name, frozenset())
    switches.catch_up(engine)
    assert engine.state.ready
    return engine, switches


def _discard(event: dict[str, Any]) -> None:
    """Nobody listens."""


def wiring_of(wan: Wan) -> Wiring:
    """Ports counted from 1 at each site, hosts on port 1000."""
    ports = {(site.name, peer): port for site in wan.sites for port, peer in enumerate(wan.neighbors(site.name), 1)}
    numbers = {site.name: number for number, site in enumerate(wan.sites, 1)}
    hosts = {
        name: HostPort(1000, f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}") for name, number in numbers.items()
    }
    return Wiring(numbers, ports, hosts)
