"""The sentences of a report: who won, and how sure that is. Pure.

A difference is claimed only where an interval of 90 % or more leaves out "none", and never without the caveat of a run
that is not to be trusted; the ring agent's time is always charged.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.report.statistics import NOMINAL_CONFIDENCE, Comparison, Estimate, inverse

LEAST_CONFIDENCE = 0.9
"""Of an interval that a claim may rest on: that of five blocks is 94 %, that of four 87 %."""


def conclusion(arms: Sequence[str], comparisons: Sequence[Comparison], trustworthy: bool = True) -> str:
    """Who won, in one sentence. `comparisons` are those of the summary, `arms` those that have figures."""
    if not arms:
        return "No arm is finished: there is nothing to compare."
    if "static" not in arms:
        return "There is no finished static arm to compare with."
    against_static = [c for c in comparisons if c.against == "static"]
    if not against_static:
        return "No arm shares a finished block with static: there is nothing to compare."
    best = max(against_static, key=lambda c: c.by_charged_time.value)
    focus = next((c for c in against_static if c.arm == "joint"), best)
    said = [focus, *(c for c in comparisons if c.arm == focus.arm and c.against != "static")]
    sentence = f"{focus.arm} {_listed([_against(c) for c in said])}"
    if best.arm != focus.arm and difference_can_be_told(best.by_charged_time):
        sentence += f"; the fastest arm was {best.arm}, which {_against(best)}"
    caveat = "" if trustworthy else "This run is not to be trusted; taken at face value, "
    return f"{caveat}{sentence}; {_how_sure(focus.by_charged_time)}, the ring agent's time charged."


def interaction_sentence(estimate: Estimate | None, trustworthy: bool = True) -> str:
    """What the two loops give together beyond their gains multiplied; empty without all four arms."""
    if estimate is None:
        return ""
    sentence = _interaction(estimate)
    return sentence if trustworthy else f"Taken at face value: {sentence[0].lower()}{sentence[1:]}"


def _interaction(estimate: Estimate) -> str:
    shown = f"interaction {estimate.value:+.3f}"
    if estimate.low is not None and estimate.high is not None:
        shown += f", {estimate.low:+.3f} to {estimate.high:+.3f}"
    if not _leaves_out(estimate, 0) or not _confident(estimate):
        return f"Whether the two loops help or hinder each other cannot be told ({shown})."
    more_or_less = "more" if estimate.value < 0 else "less"
    return f"Together the two loops gain {more_or_less} than their gains multiplied ({shown})."


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
        few = f"{blocks} blocks deserve an interval of {confidence:.0%} at most"
        return [f"{few}: run at least six for one of {NOMINAL_CONFIDENCE:.0%}"]
    return []


def difference_can_be_told(estimate: Estimate) -> bool:
    """Whether the interval of a ratio leaves out 1, and there are blocks enough for that to mean something."""
    return _leaves_out(estimate, 1) and _confident(estimate)


def _leaves_out(estimate: Estimate, none: float) -> bool:
    return estimate.low is not None and estimate.high is not None and not estimate.low <= none <= estimate.high


def _confident(estimate: Estimate) -> bool:
    return estimate.confidence is not None and estimate.confidence >= LEAST_CONFIDENCE


def speedup_text(estimate: Estimate) -> str:
    """`1.42 (1.31–1.55)`, or `1.42` without an interval."""
    return f"{estimate.value:.2f}{_range(estimate)}"


def _against(comparison: Comparison) -> str:
    estimate, other = comparison.by_charged_time, comparison.against
    if estimate.low is None:
        return f"took {1 / estimate.value:.2f} times as long as {other}"
    if not _leaves_out(estimate, 1):
        return f"cannot be told from {other}{_range(estimate)}"
    verb = "is" if _confident(estimate) else "seems"
    if estimate.value > 1:
        return f"{verb} {estimate.value:.2f}× faster than {other}{_range(estimate)}"
    slower = inverse(estimate)
    return f"{verb} {slower.value:.2f}× slower than {other}{_range(slower)}"


def _range(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({estimate.low:.2f}–{estimate.high:.2f})"


def _how_sure(estimate: Estimate) -> str:
    blocks = len(estimate.by_block)
    if estimate.confidence is None:
        return "one block, so nothing says how sure that is"
    if not _confident(estimate):
        return f"{blocks} blocks are too few to tell ({estimate.confidence:.0%} intervals)"
    return f"{estimate.confidence:.0%} intervals over {blocks} blocks"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
