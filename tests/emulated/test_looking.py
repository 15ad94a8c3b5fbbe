"""The controller looked at from outside, on real switches; and the instruments of the benchmarks."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator

import pytest
from waiting import eventually
from wans import wan_of

from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.emulation.tap import Taps
from testbed.measure_flows import probe_flow

pytestmark = pytest.mark.emulated

WAN = wan_of({"ab": 50e6, "ac": 50e6, "bc": 50e6})
WITHIN_S = 20.0


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(WAN, controller=ControllerSettings(http_port=0)) as bed:
        yield bed


def _get(bed: Testbed, path: str) -> str:
    port = bed.controller.status().http_port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=WITHIN_S) as answer:
        return answer.read().decode()


def test_what_is_true_stands_beside_what_is_known(bed: Testbed):
    def _edge() -> dict:
        edges = json.loads(_get(bed, "/v1/topology"))["edges"]
        return next(edge for edge in edges if (edge["from"], edge["to"]) == ("a", "b"))

    eventually(lambda: _edge()["capacity_true_bps"] == 50e6)
    bed.shape("a-b", rate_bps=5e6)

    eventually(lambda: (_edge()["capacity_known_bps"], _edge()["capacity_true_bps"]) == (5e6, 5e6))
    assert json.loads(_get(bed, "/v1/health"))["health"] == "ok"
    eventually(lambda: 'ringroad_reconfigurations_total{cause="capacity"} 1.0' in _get(bed, "/metrics"))
    bed.reset()
    eventually(lambda: _edge()["capacity_true_bps"] == 50e6)


def test_taps_tell_which_way_data_goes_and_since_when(bed: Testbed):
    ends = {peer: bed.plan.ports[peer, "a"].interface for peer in "bc"}
    with probe_flow(bed, ("a", "b")) as flow, Taps(ends, flow.port) as taps:
        assert taps.first_elsewhere("c", time.monotonic(), WITHIN_S).key == "b"
        assert taps.first_elsewhere("b", time.monotonic(), 0.1) is None

        called_at = time.monotonic()
        bed.controller.pin(("a", "b"), ("a", "c", "b"))
        seen = taps.first_elsewhere("b", called_at, WITHIN_S)

        assert seen.key == "c"
        assert called_at <= seen.at <= time.monotonic()
    bed.controller.unpin(("a", "b"))


def test_probes_that_nothing_happens_to_all_arrive_in_order(bed: Testbed):
    with probe_flow(bed, ("a", "c")) as flow:
        begin = time.monotonic()
        time.sleep(0.5)  # A span, not a wait: half a second of probes is what is looked at.
        end = time.monotonic()
        probes = flow.finish()

    assert probes.lost(begin, end) == 0
    order = probes.order(begin, end)
    assert order == sorted(order)
    assert len(order) > 100
