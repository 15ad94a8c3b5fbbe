"""How much TCP the fidelity gate puts on a link: enough to fill it, and not so much that its queue overflows."""

from __future__ import annotations

import pytest

from testbed.emulation.qdisc import FRAME_BYTES, wanted_tree
from testbed.measure import FLOWS, Flows, flows_over
from topologies import EdgeProperties

BOOKED = 2
"""What the kernel makes of a send buffer; it all holds data if frames took no other room."""


@pytest.mark.parametrize("rate_bps", [5e6, 50e6, 1e9, 100e9])
@pytest.mark.parametrize("delay_s", [0.001, 0.025, 0.1])
def test_without_loss_a_link_with_delays_is_filled_and_its_queue_does_not_overflow(rate_bps: float, delay_s: float):
    properties = EdgeProperties(rate_bps, delay_s)

    flows = flows_over(properties, delay_s, lossless=True)

    assert flows.under_way_bytes is not None
    least = flows.number * flows.under_way_bytes
    assert 1 <= flows.number <= FLOWS
    assert least > rate_bps / 8 * 2 * delay_s
    impairment = wanted_tree(properties, netem=True).impairment
    assert impairment is not None
    way_back = rate_bps / 8 * delay_s
    assert BOOKED * least < impairment.limit_packets * FRAME_BYTES + way_back


def test_where_round_trips_are_short_tcp_decides():
    assert flows_over(EdgeProperties(50e6), 0.0, lossless=False) == Flows(FLOWS)
