"""The sentences of a report: who won, and how sure that is. Pure.

A difference is claimed only where the interval over blocks leaves out "none"; the ring agent's time is always charged.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.report.statistics import NOMINAL_CONFIDENCE, Comparison, Estimate


def conclusion(arms: Sequence[str], comparisons: Sequence[Comparison]) -> str:
    """Who won, in one sentence. `comparisons` are those of the summary."""
    if "static" not in arms:
        return "There is no finished static arm to compare with."
    against_static = [c for c in comparisons if c.against == "static"]
    if not against_static:
        return "No arm shares a finished block with static: there is nothing to compare."
    best = max(against_static, key=lambda c: c.by_charged_time.value)
    focus = next((c for c in against_static if c.arm == "joint"), best)
    others = [c for c in comparisons if c.arm == focus.arm and c.against != "static"]
    parts = [_against(c) for c in (focus, *others)]
    sentence = f"{focus.arm} {_listed(parts)}"
    if best.arm != focus.arm:
        sentence += f"; the fastest arm was {best.arm}, which {_against(best)}"
    return sentence + "."


def interaction_sentence(estimate: Estimate | None) -> str:
    """What the two loops give together beyond their gains multiplied; empty without all four arms."""
    if estimate is None:
        return ""
    shown = f"interaction {estimate.value:+.3f}{_interval(estimate, '+.3f')}"
    if estimate.low is None or estimate.high is None or estimate.low <= 0 <= estimate.high:
        return f"Whether the two loops help or hinder each other cannot be told ({shown})."
    if estimate.value < 0:
        return f"Together the two loops gain more than their gains multiplied ({shown})."
    return f"Together the two loops gain less than their gains multiplied ({shown})."


def interval_notes(comparisons: Sequence[Comparison]) -> list[str]:
    """What must be said about the intervals shown."""
    counts = {len(c.by_charged_time.by_block) for c in comparisons}
    if not counts:
        return []
    blocks = min(counts)
    if blocks < 2:
        return ["one block gives no interval: run at least two, better six"]
    confidence = 1 - 2.0 ** (1 - blocks)
    if confidence < NOMINAL_CONFIDENCE:
        return [
            f"{blocks} blocks deserve an interval of {confidence:.0%}, not {NOMINAL_CONFIDENCE:.0%}: "
            "run at least six for that"
        ]
    return []


def difference_can_be_told(estimate: Estimate) -> bool:
    """Whether the interval of a ratio leaves out 1."""
    return estimate.low is not None and estimate.high is not None and not estimate.low <= 1 <= estimate.high


def speedup_text(estimate: Estimate) -> str:
    """`1.42 (1.31–1.55)`, or `1.42` without an interval."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} ({estimate.low:.2f}–{estimate.high:.2f})"


def _against(comparison: Comparison) -> str:
    estimate = comparison.by_charged_time
    if estimate.low is None:
        return f"took {1 / estimate.value:.2f}× the time of {comparison.against} in the one block there is"
    if not difference_can_be_told(estimate):
        return f"cannot be told from {comparison.against}{_interval(estimate, '.2f')}"
    times = f"{estimate.value:.2f}× faster" if estimate.value > 1 else f"{1 / estimate.value:.2f}× slower"
    if estimate.value > 1:
        return f"is {times} than {comparison.against}{_interval(estimate, '.2f')}"
    return f"is {times} than {comparison.against}{_interval(_inverse(estimate), '.2f')}"


def _inverse(estimate: Estimate) -> Estimate:
    low = None if estimate.high is None else 1 / estimate.high
    high = None if estimate.low is None else 1 / estimate.low
    return Estimate(1 / estimate.value, low, high, estimate.confidence, tuple(1 / v for v in estimate.by_block))


def _interval(estimate: Estimate, form: str) -> str:
    if estimate.low is None or estimate.high is None or estimate.confidence is None:
        return ""
    blocks = len(estimate.by_block)
    between = (
        f"{estimate.low:{form}}–{estimate.high:{form}}"
        if form[0] != "+"
        else (f"{estimate.low:{form}} to {estimate.high:{form}}")
    )
    return f" ({estimate.confidence:.0%} interval {between} over {blocks} blocks)"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
