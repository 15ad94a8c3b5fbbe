"""Buffers for long and fast paths, by hand calculation."""

from wans import wan_of

from testbed.emulation.interfaces import TcpSettings
from testbed.emulation.tcpbuffers import bandwidth_delay_bytes, sized_for
from topologies import EdgeProperties


def delayed(delays_s, rate_bps=1e9):
    wan = wan_of(dict.fromkeys(delays_s, rate_bps))
    changed = {}
    for ends, delay_s in delays_s.items():
        changed |= dict.fromkeys(((ends[0], ends[1]), (ends[1], ends[0])), EdgeProperties(rate_bps, delay_s))
    return wan.with_properties(changed)


def test_the_longest_of_the_shortest_ways_counts():
    # given a-b 10 ms, b-c 20 ms, a-c 100 ms: the farthest is a-c by b, 30 ms; 1 Gbit/s × 60 ms = 7.5 MB
    wan = delayed({"ab": 0.01, "bc": 0.02, "ac": 0.1})
    assert round(bandwidth_delay_bytes(wan)) == 7_500_000


def test_buffers_grow_to_four_times_what_is_under_way_and_keep_their_first_sizes():
    sized = sized_for(TcpSettings("cubic"), delayed({"ab": 0.03}))
    assert sized.receive_buffer_bytes == (4096, 131072, 30_000_000)
    assert sized.send_buffer_bytes == (4096, 65536, 30_000_000)
    assert sized.congestion_control == "cubic"


def test_a_wan_without_delay_keeps_the_buffers_as_they_are():
    assert sized_for(TcpSettings(), wan_of({"ab": 100e6})) == TcpSettings()
