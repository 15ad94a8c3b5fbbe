from __future__ import annotations

import pytest

from testbed.emulation.liveness import BfdSettings, start_commands, wait_commands
from topologies import InputError


def test_a_session_is_started_with_its_interval_in_milliseconds_and_its_misses():
    assert start_commands(["p1"], BfdSettings(interval_s=0.05, misses=6)) == [
        ["set", "Interface", "p1", "bfd:enable=true", "bfd:min_tx=50", "bfd:min_rx=50", "bfd:mult=6"]
    ]


def test_every_session_is_waited_for():
    assert wait_commands(["p1", "p2"]) == [
        ["wait-until", "Interface", "p1", "bfd_status:state=up"],
        ["wait-until", "Interface", "p2", "bfd_status:state=up"],
    ]


def test_a_blackhole_is_found_within_half_a_second():
    # 80 ms · 4, as it comes.
    assert BfdSettings().seen_within_s == pytest.approx(0.32)


@pytest.mark.parametrize("wrong", [{"interval_s": 0.001}, {"interval_s": 60}, {"misses": 0}, {"misses": 256}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match="out of range"):
        BfdSettings(**wrong)
