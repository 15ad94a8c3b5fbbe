"""What Prometheus is told: counts and latencies of what has happened, and the engine's present state when it asks.

Counts begin with the process: a controller that its watchdog starts anew begins at 0, which Prometheus allows for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from topologies.model import Edge

if TYPE_CHECKING:
    from controller.engine import Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LATENCIES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """`observe` gets every event that subscribers get; `text` is one scrape."""

    def __init__(self, engine: Engine, restarts: int) -> None:
        """`restarts`: how often the watchdog has started this controller anew."""
        disable_created_metrics()
        self._registry = CollectorRegistry()
        self._reconfigurations = Counter(
            "ringroad_reconfigurations", "Reconfigurations, by cause.", ["cause"], registry=self._registry
        )
        self._unconfirmed = Counter(
            "ringroad_reconfigurations_unconfirmed",
            "Reconfigurations among them that some switch never confirmed.",
            ["cause"],
            registry=self._registry,
        )
        self._moves = Counter(
            "ringroad_moves", "Pairs that left one path for another.", ["cause"], registry=self._registry
        )
        self._seconds = Histogram(
            "ringroad_reconfiguration_seconds",
            "From when the cause happened until the last switch confirmed.",
            ["cause"],
            buckets=LATENCIES_S,
            registry=self._registry,
        )
        self._registry.register(_Present(engine, restarts))

    def observe(self, event: Mapping[str, Any]) -> None:
        """Count a reconfiguration; other events are read from the engine's state."""
        if event["event"] != "reconfiguration":
            return
        cause = event["cause"]
        self._reconfigurations.labels(cause).inc()
        self._moves.labels(cause).inc(len(event["moves"]))
        if event["installed_at"] is None:
            self._unconfirmed.labels(cause).inc()
        else:
            self._seconds.labels(cause).observe(max(0.0, event["installed_at"] - event["happened_at"]))

    def text(self) -> bytes:
        """Every metric in Prometheus's text format."""
        return generate_latest(self._registry)


class _Present(Collector):
    """Gauges, taken from the engine at each scrape."""

    def __init__(self, engine: Engine, restarts: int) -> None:
        self._engine, self._restarts = engine, restarts

    def describe(self) -> list[Metric]:
        """Nothing to say beforehand: the names are unique."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        engine, state = self._engine, self._engine.state
        sites = state.network.sites
        yield GaugeMetricFamily("ringroad_ready", "Whether every rule and group is confirmed.", float(state.ready))
        yield GaugeMetricFamily("ringroad_switches_connected", "Switches that are there.", len(state.connected))
        yield GaugeMetricFamily("ringroad_switches_expected", "Switches that the WAN has.", len(sites))
        yield _by_site(
            "ringroad_rules",
            "Rules confirmed by each switch, its table-miss rule left out.",
            state.rules_by_site,
            sites,
        )
        groups = {site: len(confirmed) for site, confirmed in state.groups_confirmed.items()}
        yield _by_site("ringroad_groups", "Fast-failover groups confirmed by each switch.", groups, sites)
        up = {edge: float(edge not in state.down) for edge in state.network.wan.edges}
        yield _by_edge("ringroad_link_up", "Whether a directed link carries anything, as far as is known.", up)
        yield _by_edge(
            "ringroad_capacity_known_bits_per_second", "What the controller believes it carries.", state.capacities_bps
        )
        yield _by_edge(
            "ringroad_capacity_true_bits_per_second", "What the emulated link is set to.", engine.true_capacities_bps
        )
        yield GaugeMetricFamily("ringroad_pairs_active", "Pairs that send.", len(state.active))
        yield GaugeMetricFamily("ringroad_pairs_pinned", "Pairs that stay where they are.", len(state.pinned))
        yield CounterMetricFamily("ringroad_restarts", "Starts anew by the watchdog.", self._restarts)
        yield CounterMetricFamily(
            "ringroad_malformed_messages", "Messages that no switch sends.", engine.malformed_count
        )
        yield CounterMetricFamily(
            "ringroad_refused_switches", "Unknown datapath ids that called.", len(engine.refused_dpids)
        )


def _by_site(name: str, text: str, values: Mapping[str, int], sites: frozenset[str]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["site"])
    for site in sorted(sites):
        family.add_metric([site], values.get(site, 0))
    return family


def _by_edge(name: str, text: str, values: Mapping[Edge, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["source", "target"])
    for (source, target), value in values.items():
        family.add_metric([source, target], value)
    return family
