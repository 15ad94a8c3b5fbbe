"""Figures of arms, their ratios and intervals, by hand calculation and by property."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.report.records import ArmRun, Collective
from testbed.report.statistics import (
    Estimate,
    arm_figures,
    compare,
    interaction,
    interval,
    inverse,
    paired_blocks,
)
from testbed.report.wording import (
    conclusion,
    difference_can_be_told,
    interaction_sentence,
    interval_notes,
    speedup_text,
)


def run_of(arm, block, durations, *, agent_s=0.0, limits=None, finished=True, **more):
    """One arm of one block; `agent_s` is charged to its first collective."""
    limits = limits or [None] * len(durations)
    collectives = tuple(
        Collective(index, 100.0 * index, 100.0 * index + duration, agent_s if index == 0 else 0.0, limit)
        for index, (duration, limit) in enumerate(zip(durations, limits, strict=True))
    )
    given_or_nothing = {
        "ring_changed_at": (),
        "ring_changes_considered": 0,
        "reconfigured_at": (),
        "moves": 0,
        "reaction_s": (),
    }
    return ArmRun(block, arm, finished, 0.0, collectives, **{**given_or_nothing, **more})


def blocks_of(**durations_by_arm):
    """Runs of constant durations: `static=[2, 4]` is block 1 at 2 s and block 2 at 4 s."""
    return [
        run_of(arm, block, [duration] * 3)
        for arm, durations in durations_by_arm.items()
        for block, duration in enumerate(durations, start=1)
    ]


def test_quantiles_are_over_all_collectives_of_all_blocks():
    figures = arm_figures([run_of("wan", 1, [1, 2, 3]), run_of("wan", 2, [4, 5])], ranks=4, size_bytes=10**6)

    # Linear between order statistics: position 0.95 · 4 = 3.8 of (1, 2, 3, 4, 5).
    assert (figures.collectives, figures.blocks) == (5, 2)
    assert figures.median_s == 3
    assert figures.p95_s == pytest.approx(4.8)
    assert figures.p99_s == pytest.approx(4.96)
    assert figures.mean_s == 3


def test_bandwidths_are_those_of_nccl_tests():
    # 4 ranks × 250 MB each, in 2 s: algbw = 1 GB / 2 s, busbw = algbw · 3/4.
    figures = arm_figures([run_of("static", 1, [2.0])], ranks=4, size_bytes=250_000_000)

    assert figures.algbw_gb_per_s == pytest.approx(0.5)
    assert figures.busbw_gb_per_s == pytest.approx(0.375)


def test_the_time_of_the_agent_is_charged_and_shown():
    figures = arm_figures([run_of("ccl", 1, [1.0, 1.0, 1.0], agent_s=0.6)], ranks=4, size_bytes=4)

    assert figures.mean_s == 1
    assert figures.charged_mean_s == pytest.approx(1.2)
    assert figures.agent_s == pytest.approx(0.6)
    assert figures.agent_share == pytest.approx(0.6 / 3.6)


def test_the_fraction_of_the_limit_is_allowed_time_over_taken_time():
    figures = arm_figures([run_of("wan", 1, [1.0, 3.0], limits=[0.5, 1.5])], ranks=4, size_bytes=4)

    assert figures.limit_fraction == pytest.approx(0.5)


def test_without_every_limit_there_is_no_fraction_of_it():
    assert arm_figures([run_of("wan", 1, [1.0, 3.0], limits=[0.5, None])], ranks=4, size_bytes=4).limit_fraction is None


def test_events_are_counted_over_blocks():
    runs = [
        run_of("joint", 1, [1], reconfigured_at=(1.0, 2.0), moves=5, reaction_s=(0.01, 0.03)),
        run_of("joint", 2, [1], reconfigured_at=(3.0,), moves=1, reaction_s=(0.02,), ring_changes_considered=4),
    ]

    figures = arm_figures(runs, ranks=4, size_bytes=4)

    assert (figures.reconfigurations, figures.moves, figures.ring_changes_considered) == (3, 6, 4)
    assert figures.reaction_median_s == pytest.approx(0.02)


def test_an_arm_without_a_collective_has_no_figures():
    with pytest.raises(ValueError, match="without a collective"):
        arm_figures([], ranks=4, size_bytes=4)


def test_ratios_are_geometric_means_over_blocks():
    # Block 1: 2/1 = 2, block 2: 8/1 = 8; the geometric mean is 4, the arithmetic one would be 5.
    found = compare(blocks_of(static=[2, 8], joint=[1, 1]), "joint", "static", seed=1)

    assert found.by_median.value == pytest.approx(4)
    assert found.by_median.by_block == pytest.approx((2, 8))
    assert found.by_charged_time.value == pytest.approx(4)


def test_the_agents_time_counts_in_one_ratio_and_not_in_the_other():
    runs = [run_of("static", 1, [2.0, 2.0]), run_of("ccl", 1, [1.0, 1.0], agent_s=2.0)]

    found = compare(runs, "ccl", "static", seed=1)

    assert found.by_median.value == pytest.approx(2)
    assert found.by_charged_time.value == pytest.approx(1)


def test_only_blocks_in_which_both_arms_finished_are_compared():
    runs = blocks_of(static=[2, 2, 2], joint=[1, 1])
    runs += [run_of("joint", 3, [0.1], finished=False), run_of("joint", 4, [0.1])]

    assert compare(runs, "joint", "static", seed=1).by_median.by_block == pytest.approx((2, 2))
    assert compare(blocks_of(static=[2]), "joint", "static", seed=1) is None


def test_loops_whose_gains_multiply_have_no_interaction():
    found = interaction(blocks_of(static=[8, 8], wan=[4, 4], ccl=[2, 2], joint=[1, 1]), seed=1)

    assert found.value == pytest.approx(0)


def test_loops_that_help_each_other_have_a_negative_interaction():
    # ln 1 − ln 4 − ln 4 + ln 8 = ln(8/16)
    found = interaction(blocks_of(static=[8, 8], wan=[4, 4], ccl=[4, 4], joint=[1, 1]), seed=1)

    assert found.value == pytest.approx(math.log(0.5))
    assert interaction(blocks_of(static=[8], wan=[4], ccl=[4]), seed=1) is None


def test_one_block_has_no_interval():
    assert interval([0.3], seed=1) == Estimate(0.3, None, None, None, (0.3,))


@pytest.mark.parametrize(("blocks", "confidence"), [(2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.95), (30, 0.95)])
def test_few_blocks_deserve_little_confidence(blocks, confidence):
    assert interval([0.1 * index for index in range(blocks)], seed=1).confidence == confidence


def test_the_interval_of_three_blocks_is_their_range():
    found = interval([0.1, 0.2, 0.6], seed=1)

    assert (found.low, found.high) == pytest.approx((0.1, 0.6))
    assert found.value == pytest.approx(0.3)


def test_the_interval_of_many_blocks_is_that_of_students_t():
    # 100 values alternating −1 and 1: mean 0, s = 1.00504, t(99, 0.975) = 1.98422 → ± 0.1994.
    found = interval([(-1.0) ** index for index in range(100)], seed=1)

    assert found.low == pytest.approx(-0.1994, abs=0.02)
    assert found.high == pytest.approx(0.1994, abs=0.02)


@settings(deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=12), st.integers(0, 2**32))
def test_an_interval_holds_the_mean_stays_in_the_range_and_is_the_same_again(values, seed):
    found = interval(values, seed)

    assert min(values) - 1e-9 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= max(values) + 1e-9
    assert found == interval(values, seed)


def test_seen_from_the_other_side_a_ratio_turns_over():
    assert inverse(Estimate(2.0, 1.0, 4.0, 0.95, (2.0,))) == Estimate(0.5, 0.25, 1.0, 0.95, (0.5,))


def test_pairs_need_every_arm():
    blocks = paired_blocks(blocks_of(static=[1, 1, 1], wan=[1, 1]), ("static", "wan"))

    assert [block["wan"].block for block in blocks] == [1, 2]


def comparisons(seed=1, **durations_by_arm):
    runs = blocks_of(**durations_by_arm)
    pairs = [("wan", "static"), ("ccl", "static"), ("joint", "static"), ("joint", "wan"), ("joint", "ccl")]
    return [found for arm, against in pairs if (found := compare(runs, arm, against, seed)) is not None]


SIX = [2.0, 2.1, 2.2, 2.0, 2.1, 2.2]


def test_a_clear_winner_is_named_with_its_interval():
    found = comparisons(static=[2.1] * 6, joint=[1.0] * 6)

    assert conclusion(["static", "joint"], found) == (
        "joint is 2.10× faster than static (2.10–2.10); 95% intervals over 6 blocks, the ring agent's time charged."
    )


def test_no_winner_is_named_where_the_interval_includes_no_difference():
    found = comparisons(static=SIX, joint=[2.2, 2.0, 2.1, 2.2, 2.0, 2.1])

    assert "joint cannot be told from static (" in conclusion(["static", "joint"], found)


def test_a_loser_is_called_slower():
    found = comparisons(static=[1.0] * 6, wan=[2.1] * 6)

    assert "wan is 2.10× slower than static (2.10–2.10)" in conclusion(["static", "wan"], found)


def test_joint_is_held_against_every_other_arm_and_a_faster_one_is_named():
    found = comparisons(static=[4.0] * 6, wan=[1.0] * 6, ccl=[3.0] * 6, joint=[2.0] * 6)

    said = conclusion(["static", "wan", "ccl", "joint"], found)

    assert "joint is 2.00× faster than static (2.00–2.00), is 2.00× slower than wan (2.00–2.00)" in said
    assert "is 1.50× faster than ccl" in said
    assert "the fastest arm was wan, which is 4.00× faster than static" in said


def test_one_block_claims_nothing():
    found = comparisons(static=[2.0], joint=[1.0])

    assert conclusion(["static", "joint"], found) == (
        "joint took 0.50 times as long as static; one block, so nothing says how sure that is, "
        "the ring agent's time charged."
    )
    assert interval_notes(found) == ["one block gives no interval: run at least two, better six"]


def test_few_blocks_point_to_a_winner_without_claiming_it():
    found = comparisons(static=[2.1] * 2, wan=[4.2] * 2, ccl=[2.0] * 2, joint=[1.0] * 2)

    assert conclusion(["static", "wan", "ccl", "joint"], found) == (
        "joint seems 2.10× faster than static (2.10–2.10), seems 4.20× faster than wan (4.20–4.20) and "
        "seems 2.00× faster than ccl (2.00–2.00); 2 blocks are too few to tell (50% intervals), "
        "the ring agent's time charged."
    )


@pytest.mark.parametrize(("blocks", "told"), [(2, False), (4, False), (5, True), (6, True)])
def test_a_difference_takes_five_blocks(blocks, told):
    (found,) = comparisons(static=[2.0] * blocks, joint=[1.0] * blocks)

    assert difference_can_be_told(found.by_charged_time) is told


def test_the_conclusion_of_a_run_that_is_not_trusted_says_so_itself():
    found = comparisons(static=[2.1] * 6, joint=[1.0] * 6)

    assert conclusion(["static", "joint"], found, trustworthy=False).startswith(
        "This run is not to be trusted; taken at face value, joint is 2.10× faster than static"
    )


def test_without_static_there_is_nothing_to_compare_with():
    assert "no finished static arm" in conclusion(["joint"], [])
    assert "nothing to compare" in conclusion(["static"], [])


def test_few_blocks_are_noted():
    assert interval_notes(comparisons(static=SIX[:3], joint=SIX[:3])) == [
        "3 blocks deserve an interval of 75% at most: run at least six for one of 95%"
    ]
    assert interval_notes(comparisons(static=SIX, joint=SIX)) == []


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (Estimate(-0.2, -0.3, -0.1, 0.95, (-0.2,)), "gain more than their gains multiplied"),
        (Estimate(0.2, 0.1, 0.3, 0.95, (0.2,)), "gain less than their gains multiplied"),
        (Estimate(0.0, -0.1, 0.1, 0.95, (0.0,)), "cannot be told"),
        (Estimate(0.5, None, None, None, (0.5,)), "cannot be told"),
        (Estimate(0.2, 0.1, 0.3, 0.5, (0.1, 0.3)), "cannot be told"),
    ],
)
def test_the_interaction_is_put_into_words(estimate, said):
    assert said in interaction_sentence(estimate)
    assert interaction_sentence(None) == ""


def test_a_ratio_is_shown_with_its_interval_if_it_has_one():
    assert speedup_text(Estimate(1.42, 1.31, 1.55, 0.95, ())) == "1.42 (1.31–1.55)"
    assert speedup_text(Estimate(1.42, None, None, None, ())) == "1.42"
