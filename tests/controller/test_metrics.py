"""What Prometheus reads, by its own parser, from an engine over switches in memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from openflow_table import Switchboard
from prometheus_client.parser import text_string_to_metric_families
from wans import wan_of, wiring_of

from controller.engine import Engine
from controller.metrics import Metrics
from controller.settings import ControllerConfig, ControllerSettings

TRIANGLE = {"ab": 100e6, "ac": 100e6, "bc": 100e6}
CAPACITY = {"cause": "capacity"}


class Scraped:
    """An engine, its metrics, and a clock that stands still until it is set."""

    def __init__(self) -> None:
        wan = wan_of(TRIANGLE)
        config = ControllerConfig(wan, wiring_of(wan), Path("/none"), ControllerSettings("widest", detours=False))
        self.now = 100.0
        self.switches = Switchboard(config.wiring)
        self.engine = Engine(config, self.switches, lambda event: self.metrics.observe(event), lambda: self.now)
        self.metrics = Metrics(self.engine, restarts=2)

    def settle(self) -> None:
        self.switches.settle(self.engine)

    def value(self, name: str, **labels: str) -> float | None:
        """The sample of this name and these labels; None if there is none."""
        families = text_string_to_metric_families(self.metrics.text().decode())
        samples = (sample for family in families for sample in family.samples)
        return next((s.value for s in samples if s.name == name and s.labels == labels), None)


@pytest.fixture
def scraped() -> Scraped:
    scraped = Scraped()
    for site in "abc":
        scraped.engine.connected(site, frozenset())
    scraped.settle()
    return scraped


def test_a_reconfiguration_is_counted_by_its_cause_with_its_moves_and_its_latency(scraped: Scraped):
    scraped.engine.capacity({("a", "b"): 10e6, ("b", "a"): 10e6}, happened_at=99.996)
    scraped.now = 100.002
    scraped.settle()

    assert scraped.value("ringroad_reconfigurations_total", **CAPACITY) == 1
    assert scraped.value("ringroad_moves_total", **CAPACITY) == 2
    assert scraped.value("ringroad_reconfiguration_seconds_sum", **CAPACITY) == pytest.approx(0.006)
    assert scraped.value("ringroad_reconfiguration_seconds_bucket", le="0.005", **CAPACITY) == 0
    assert scraped.value("ringroad_reconfiguration_seconds_bucket", le="0.01", **CAPACITY) == 1
    assert scraped.value("ringroad_reconfiguration_seconds_bucket", le="+Inf", **CAPACITY) == 1


def test_one_that_a_switch_never_confirms_has_no_latency(scraped: Scraped):
    scraped.engine.capacity({("a", "b"): 10e6}, happened_at=100.0)
    scraped.engine.lost("a")

    assert scraped.value("ringroad_reconfigurations_unconfirmed_total", **CAPACITY) == 1
    assert scraped.value("ringroad_reconfigurations_total", **CAPACITY) == 1
    assert scraped.value("ringroad_reconfiguration_seconds_count", **CAPACITY) is None


def test_known_and_true_capacities_stand_side_by_side(scraped: Scraped):
    scraped.engine.capacity({("a", "b"): 60e6}, happened_at=100.0)
    scraped.engine.true_capacities({("a", "b"): 50e6})

    edge = {"source": "a", "target": "b"}
    assert scraped.value("ringroad_capacity_known_bits_per_second", **edge) == 60e6
    assert scraped.value("ringroad_capacity_true_bits_per_second", **edge) == 50e6
    assert scraped.value("ringroad_capacity_true_bits_per_second", source="b", target="a") is None


def test_the_true_capacity_changes_no_route(scraped: Scraped):
    scraped.engine.true_capacities({("a", "b"): 1.0})
    scraped.settle()

    assert scraped.engine.state.wanted["a", "b"].route == ("a", "b")
    assert scraped.engine.state.capacities_bps["a", "b"] == 100e6


def test_rules_are_counted_switch_by_switch(scraped: Scraped):
    # Six pairs of two paths each. At a: two ingress rules; egress of four tunnels that end there; transit of two.
    assert scraped.value("ringroad_rules", site="a") == 8
    assert sum(scraped.value("ringroad_rules", site=site) for site in "abc") == scraped.engine.state.rules


def test_switches_and_links_are_seen_to_go(scraped: Scraped):
    scraped.engine.port_changed(("a", "b"), up=False)
    scraped.engine.lost("c")

    assert scraped.value("ringroad_link_up", source="b", target="a") == 0
    assert scraped.value("ringroad_link_up", source="a", target="c") == 1
    assert (scraped.value("ringroad_switches_connected"), scraped.value("ringroad_switches_expected")) == (2, 3)
    assert scraped.value("ringroad_restarts_total") == 2
    assert scraped.value("ringroad_ready") == 0


def test_the_metrics_of_the_documentation_are_all_there_are(scraped: Scraped):
    documentation = (Path(__file__).parents[2] / "docs" / "controller.md").read_text()
    families = text_string_to_metric_families(scraped.metrics.text().decode())

    documented = set(re.findall(r"`(ringroad_[a-z_]+)", documentation))

    assert {name.removesuffix("_total") for name in documented} == {family.name for family in families}
