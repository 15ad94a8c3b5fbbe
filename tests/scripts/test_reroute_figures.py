"""What the benchmark of the WAN controller makes of its records; the parts that need no network."""

from __future__ import annotations

import numpy

from benchmarks import reroute
from benchmarks.reroute import Trials
from testbed.probes import ENTRY, Probes


def test_each_trial_is_held_against_a_time_of_quiet():
    # A probe a second; 12 and 13 never come, 4 comes half a second late.
    sent = numpy.array([(n, float(n)) for n in range(20)], ENTRY)
    at = {n: n + 0.1 for n in range(20) if n not in (12, 13)} | {4: 4.6}
    probes = Probes(sent, numpy.array(list(at.items()), ENTRY))
    trials = Trials(done=[(11.5, 15.5)], quiet=[(2.5, 6.5)])

    done, quiet = trials.gaps_ms(probes)

    assert [round(gap) for gap in done] == [3000]
    assert [round(gap) for gap in quiet] == [1500]
    assert trials.losses(probes) == ([2], [0])


def test_rules_on_a_switch_of_b4_are_stated_with_what_they_are_made_of():
    figures = {each.name.replace(" of b4", ""): each for each in reroute.rules_per_switch()}
    most, without = figures["rules on a switch, most"], figures["rules on a switch without detours, most"]

    assert most.shown > without.shown > figures["fast-failover groups on a switch, most"].shown > 0
    assert "132 pairs × 4 tunnels" in most.against
    # 132 + 1236 + 528 + 463 + 310, and one on each of 12 switches for packets that match nothing.
    assert figures["rules on all switches"].shown == 2681
    assert "tunnel transit 1,236, tunnel egress 528, detour transit 463" in figures["rules on all switches"].against
