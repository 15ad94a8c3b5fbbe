"""What a link loses because it was taken down is no sign of a slow machine."""

import pytest

from testbed.bed import Testbed
from topologies.wanfile import load_wan

HERE, ELSEWHERE = "tokyo → oregon", "oregon → tokyo"


@pytest.fixture
def bed(monkeypatch):
    """A testbed that was never brought up, whose counters are in `bed.counted`."""
    bed = Testbed(load_wan("mesh4"))
    bed.counted = {f"{a} → {b}": 0 for a, b in bed.wan.edges}
    monkeypatch.setattr(bed, "_drops", lambda: dict(bed.counted))
    monkeypatch.setattr(bed, "_set_link", lambda link, up: None)
    return bed


def test_losses_while_a_link_is_down_are_left_out_and_those_before_and_after_are_not(bed):
    bed.counted[HERE] = 1
    bed.fail("tokyo-oregon")
    bed.counted[HERE] += 10
    assert bed.stray_drops()[HERE] == 1

    bed.fail("tokyo-oregon")  # again: it has been down since the first time
    bed.heal()
    bed.counted[HERE] += 2
    assert bed.stray_drops()[HERE] == 3


def test_every_failure_of_a_link_counts_for_itself_and_no_other_link_is_excused(bed):
    for _ in range(2):
        bed.fail("tokyo-oregon")
        bed.counted[ELSEWHERE] += 5
        bed.counted["virginia → tokyo"] += 1
        bed.heal("tokyo-oregon")

    assert {place: count for place, count in bed.stray_drops().items() if count} == {"virginia → tokyo": 2}
