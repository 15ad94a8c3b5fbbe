"""From what was measured to figures. Pure.

The block, not the collective, is the unit of every interval: collectives of one run are not independent of each other.
Arms are compared within a block (same seed, same trace); ratios are averaged over blocks as geometric means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy
from scipy.special import stdtrit

from testbed.report.records import ArmRun

RESAMPLES = 10_000
NOMINAL_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure over blocks: its value, its interval (None with fewer than two blocks), and each block's own value.

    `confidence` is what the interval deserves with that many blocks; see `interval`.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float | None
    by_block: tuple[float, ...]


@dataclass(frozen=True)
class ArmFigures:
    """One arm over all its finished blocks. Times in s, bandwidths in GB/s (1e9 B/s) at the median time.

    `limit_fraction` is the time the physical limit allows for these collectives ÷ the time they took (1 is the limit).
    `charged_mean_s` is the mean with the ring agent's time charged, `agent_share` that time's share of it.
    """

    collectives: int
    blocks: int
    median_s: float
    p95_s: float
    p99_s: float
    mean_s: float
    charged_mean_s: float
    agent_s: float
    agent_share: float
    limit_fraction: float | None
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    reconfigurations: int
    moves: int
    reaction_median_s: float | None
    ring_changes: int
    ring_changes_considered: int


@dataclass(frozen=True)
class Comparison:
    """How many times faster `arm` is than `against` (above 1: faster), by the median and by all time charged."""

    arm: str
    against: str
    by_median: Estimate
    by_charged_time: Estimate


def arm_figures(runs: Sequence[ArmRun], *, ranks: int, size_bytes: int) -> ArmFigures:
    """Describe one arm's finished runs, all their collectives together. ValueError if there is no collective.

    `size_bytes` is what one rank contributes. algbw and busbw are those of nccl-tests (PERFORMANCE.md): S is the total
    output size, algbw = S/t, busbw = algbw·(n−1)/n for AllGather.
    """
    collectives = [collective for run in runs for collective in run.collectives]
    if not collectives:
        raise ValueError("an arm without a collective has no figures")
    durations = numpy.array([collective.duration_s for collective in collectives])
    agent_s = math.fsum(collective.agent_s for collective in collectives)
    charged_s = math.fsum(durations) + agent_s
    median_s, p95_s, p99_s = (float(q) for q in numpy.quantile(durations, (0.5, 0.95, 0.99)))
    limits = [collective.limit_s for collective in collectives]
    known_limits = [limit for limit in limits if limit is not None]
    reactions = [reaction for run in runs for reaction in run.reaction_s]
    algbw = ranks * size_bytes / median_s / 1e9
    return ArmFigures(
        collectives=len(collectives),
        blocks=len(runs),
        median_s=median_s,
        p95_s=p95_s,
        p99_s=p99_s,
        mean_s=float(durations.mean()),
        charged_mean_s=charged_s / len(collectives),
        agent_s=agent_s,
        agent_share=agent_s / charged_s,
        limit_fraction=math.fsum(known_limits) / math.fsum(durations) if len(known_limits) == len(limits) else None,
        algbw_gb_per_s=algbw,
        busbw_gb_per_s=algbw * (ranks - 1) / ranks,
        reconfigurations=sum(len(run.reconfigured_at) for run in runs),
        moves=sum(run.moves for run in runs),
        reaction_median_s=float(numpy.median(reactions)) if reactions else None,
        ring_changes=sum(len(run.ring_changed_at) for run in runs),
        ring_changes_considered=sum(run.ring_changes_considered for run in runs),
    )


def median_s(run: ArmRun) -> float:
    """Median completion time of one arm in one block, in s."""
    return float(numpy.median([collective.duration_s for collective in run.collectives]))


def charged_mean_s(run: ArmRun) -> float:
    """Mean time per collective of one arm in one block, the ring agent's time charged, in s."""
    return math.fsum(collective.charged_s for collective in run.collectives) / len(run.collectives)


def compare(runs: Sequence[ArmRun], arm: str, against: str, seed: int) -> Comparison | None:
    """`arm` against another, over the blocks in which both finished; None if there is no such block."""
    blocks = paired_blocks(runs, (arm, against))
    if not blocks:
        return None

    def speedup(time_s: Callable[[ArmRun], float]) -> Estimate:
        return _exponential(interval([math.log(time_s(b[against]) / time_s(b[arm])) for b in blocks], seed))

    return Comparison(arm, against, speedup(median_s), speedup(charged_mean_s))


def interaction(runs: Sequence[ArmRun], seed: int) -> Estimate | None:
    """ln(joint) − ln(wan) − ln(ccl) + ln(static) of the charged time, over the blocks in which all four finished.

    Below 0 the two loops give more together than their gains multiplied, above 0 less. None without such a block.
    """
    signs = {"joint": 1, "wan": -1, "ccl": -1, "static": 1}
    blocks = paired_blocks(runs, tuple(signs))
    if not blocks:
        return None
    return interval([sum(sign * math.log(charged_mean_s(b[arm])) for arm, sign in signs.items()) for b in blocks], seed)


def paired_blocks(runs: Sequence[ArmRun], arms: Sequence[str]) -> list[Mapping[str, ArmRun]]:
    """The blocks in which all these arms finished with at least one collective, each as arm → run."""
    by_block: dict[int, dict[str, ArmRun]] = {}
    for run in runs:
        if run.finished and run.collectives:
            by_block.setdefault(run.block, {})[run.arm] = run
    return [block for _, block in sorted(by_block.items()) if all(arm in block for arm in arms)]


def interval(values: Sequence[float], seed: int) -> Estimate:
    """Mean of the blocks' values and its expanded percentile bootstrap interval, 95 % where there are enough blocks.

    A plain percentile interval is too narrow for few blocks; its quantiles are moved out as T. Hesterberg gives it
    ("What Teachers Should Know About the Bootstrap", 2015, section 4.3). No resample leaves the range of the values,
    so n blocks never deserve more than 1 − 2^(1−n), the chance that their range covers the true median: that is the
    `confidence` of two to five blocks.
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, None, None, None, tuple(values))
    chosen = numpy.random.default_rng(seed).integers(0, count, size=(RESAMPLES, count))
    means = numpy.asarray(values)[chosen].mean(axis=1)
    tail = _expanded_tail(count)
    low, high = (float(q) for q in numpy.quantile(means, (tail, 1 - tail)))
    return Estimate(mean, low, high, min(NOMINAL_CONFIDENCE, 1 - 2.0 ** (1 - count)), tuple(values))


def inverse(estimate: Estimate) -> Estimate:
    """Of a ratio: the same comparison seen from the other side."""
    low = None if estimate.high is None else 1 / estimate.high
    high = None if estimate.low is None else 1 / estimate.low
    return Estimate(1 / estimate.value, low, high, estimate.confidence, tuple(1 / value for value in estimate.by_block))


def _expanded_tail(count: int) -> float:
    """Φ(−√(n/(n−1)) · t), t being Student's quantile for n−1 degrees of freedom: 0.025 for many blocks."""
    student = stdtrit(count - 1, (1 + NOMINAL_CONFIDENCE) / 2)
    return NormalDist().cdf(-math.sqrt(count / (count - 1)) * float(student))


def _exponential(estimate: Estimate) -> Estimate:
    low = None if estimate.low is None else math.exp(estimate.low)
    high = None if estimate.high is None else math.exp(estimate.high)
    by_block = tuple(math.exp(value) for value in estimate.by_block)
    return Estimate(math.exp(estimate.value), low, high, estimate.confidence, by_block)
