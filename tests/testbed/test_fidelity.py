"""Verdicts follow from what was measured."""

import time

import pytest
from waiting import eventually

from testbed.fidelity import CpuSample, Goodput, Tolerance, Verdict, combine, judge_arm, judge_links, verdict_from_json
from testbed.fidelity_sampling import CpuSampler, cpu_ticks

TOLERANCE = Tolerance(
    goodput_min=0.95, goodput_max=1.02, cpu_idle_min=0.05, starved_seconds_max=0.25, stray_drops_max=0
)
QUIET = [CpuSample(0, 1, 0.5), CpuSample(1, 2, 0.7)]


def test_links_that_carry_what_they_are_set_to_are_trusted():
    verdict = judge_links([Goodput(("a", "b"), 100e6, 98e6), Goodput(("b", "a"), 100e6, 99e6)], TOLERANCE)

    assert verdict.trustworthy
    assert verdict.reasons == ()
    assert verdict.figures["goodput_ratio_min"] == pytest.approx(0.98)
    assert verdict.figures["goodput_ratio_max"] == pytest.approx(0.99)


def test_a_link_that_carries_too_little_is_named_with_its_figures():
    verdict = judge_links([Goodput(("a", "b"), 100e6, 80e6), Goodput(("b", "a"), 100e6, 99e6)], TOLERANCE)

    assert not verdict.trustworthy
    assert verdict.reasons == ("a → b carries 80 Mbit/s of 100 Mbit/s: 0.800, outside 0.95 to 1.02",)


def test_a_link_that_carries_more_than_it_may_is_not_trusted_either():
    assert not judge_links([Goodput(("a", "b"), 100e6, 103e6)], TOLERANCE).trustworthy


def test_a_gate_that_measured_nothing_is_not_passed():
    assert judge_links([], TOLERANCE).reasons == ("no link was measured",)


def test_the_worst_links_come_first_and_the_rest_are_counted():
    goodputs = [Goodput(("a", str(index)), 100.0, 50.0 + index) for index in range(8)]

    reasons = judge_links(goodputs, TOLERANCE).reasons

    assert len(reasons) == 5
    assert reasons[0].startswith("a → 0 ")
    assert reasons[-1] == "and 4 more"


def test_an_arm_with_idle_time_and_no_stray_drops_is_trusted():
    verdict = judge_arm(QUIET, {"host tokyo": 0}, TOLERANCE)

    assert verdict.trustworthy
    assert verdict.figures["cpu_idle_mean"] == pytest.approx(0.6)
    assert verdict.figures["starved_share"] == 0


def test_one_busy_second_of_four_is_borne_and_two_are_not():
    busy, idle = CpuSample(0, 1, 0.01), CpuSample(0, 1, 0.5)

    assert judge_arm([busy, idle, idle, idle], {}, TOLERANCE).trustworthy
    refused = judge_arm([busy, busy, idle, idle], {}, TOLERANCE)
    assert not refused.trustworthy
    assert refused.reasons[0].startswith("less than 5% of the CPUs was idle in more than 25% of the time: in 50%")


def test_samples_count_by_their_length():
    verdict = judge_arm([CpuSample(0, 9, 1.0), CpuSample(9, 10, 0.0)], {}, TOLERANCE)

    assert verdict.figures["cpu_idle_mean"] == pytest.approx(0.9)
    assert verdict.figures["starved_share"] == pytest.approx(0.1)


def test_drops_outside_the_emulated_queues_are_named():
    verdict = judge_arm(QUIET, {"host tokyo": 3, "switch oregon": 0}, TOLERANCE)

    assert verdict.reasons == ("packets were dropped outside the emulated links' queues: 3 in all, 3 at host tokyo",)


def test_an_arm_without_cpu_samples_is_not_trusted():
    assert judge_arm([], {}, TOLERANCE).reasons == ("the CPUs were not sampled",)


def test_a_run_is_as_good_as_its_worst_part():
    good, bad = Verdict(True, (), {"links": 2}), Verdict(False, ("too slow",), {})

    both = combine(good, {"block 1, joint": bad})

    assert not both.trustworthy
    assert both.reasons == ("block 1, joint: too slow",)
    assert both.figures["before the arms"] == {"links": 2}
    assert combine(good, {}).trustworthy


def test_what_is_wrong_in_several_arms_is_said_once_with_their_count():
    busy, idle = [CpuSample(0, 1, 0.01), CpuSample(1, 2, 0.5)], [CpuSample(0, 1, 0.5)]
    arms = {f"block {block}, joint": judge_arm(busy if block > 3 else idle, {}, TOLERANCE) for block in range(1, 21)}
    arms["block 2, joint"] = judge_arm(idle, {"host tokyo": 3}, TOLERANCE)

    said = combine(judge_links([], TOLERANCE), arms).reasons

    assert said == (
        "before the arms: no link was measured",
        "in 17 of 20 arms less than 5% of the CPUs was idle in more than 25% of the time; first in block 4, joint: "
        "in 50%; the machine, not the WAN, may have set the pace",
        "block 2, joint: packets were dropped outside the emulated links' queues: 3 in all, 3 at host tokyo",
    )


def test_a_verdict_survives_json():
    verdict = Verdict(False, ("too slow",), {"links": 2})

    assert verdict_from_json({"trustworthy": False, "reasons": ["too slow"], "figures": {"links": 2}}) == verdict


def test_waiting_for_disks_is_idle_and_stolen_time_is_not():
    # user nice system idle iowait irq softirq steal guest guest_nice
    stat = "cpu  100 10 50 700 40 5 15 80 30 0\ncpu0 50 5 25 350 20 2 7 40 15 0\nintr 1\n"

    assert cpu_ticks(stat) == (740, 1000)


def test_the_sampler_covers_what_runs_inside_it_without_a_gap():
    begun = time.monotonic()
    with CpuSampler(period_s=0.2) as sampler:
        eventually(lambda: len(sampler.samples) >= 3)
    ended = time.monotonic()

    assert all(0 <= sample.idle <= 1 for sample in sampler.samples)
    assert begun <= sampler.samples[0].since < sampler.samples[-1].until <= ended
    assert [s.until for s in sampler.samples[:-1]] == [s.since for s in sampler.samples[1:]]
