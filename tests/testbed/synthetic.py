"""A run folder as a run would leave it, from a fluid model instead of a network: for tests of reports and pictures.

A collective of arm X takes the static ring's time at that moment ÷ `gain[X]`, with a little noise.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import networkx
import yaml

from testbed.dynamics.timeline import capacities
from testbed.experiment import Experiment, blocks_plan, read_experiment
from testbed.fidelity import Verdict
from testbed.runfolder import GATE, MANIFEST, RunFolder
from workers.limits import allgather_limit_over_time_s, ring_limit_s

EXPERIMENT = {
    "name": "quickstart",
    "wan": "six",
    "trace": {"kind": "redraw", "every": "10s", "low": "15mbit", "high": "60mbit"},
    "arms": ["static", "wan", "ccl", "joint"],
    "blocks": 4,
    "payload": "512KiB",
    "collectives": 20,
    "reorder_every": 4,
    "t_wan": "500ms",
    "agent": {"source": "feed"},
    "seed": 1,
}
"""Of its own, so that tests do not change with the experiments that people start from."""

GAINS = {"static": 1.0, "wan": 1.25, "ccl": 1.3, "joint": 1.7}
CLOCK_AT_START = 5000.0


def make_run(
    out: Path,
    *,
    blocks: int = 3,
    arms: list[str] | None = None,
    gains: dict[str, float] | None = None,
    keys: dict | None = None,
    noise: float = 0.05,
) -> RunFolder:
    """A finished, trustworthy run; `keys` replace those of `EXPERIMENT`."""
    text = yaml.safe_dump(EXPERIMENT | (keys or {}))
    experiment = read_experiment(text, Path("synthetic.yaml"), memory_bytes=2**34).overridden(blocks, arms)
    folder = RunFolder.create(experiment.name, "k3f9", experiment.text, out=out, now=datetime(2026, 1, 2, tzinfo=UTC))
    manifest = {"run_id": "k3f9", "started": "2026-01-02T03:04:05+00:00", "experiment": experiment.to_json()}
    folder.write_json(MANIFEST, {**manifest, "labels": experiment.labels(), "notes": ["made up for a test"]})
    folder.write_json(GATE, Verdict(True, (), {"goodput_ratio_min": 0.985, "goodput_ratio_max": 0.993}))
    now = CLOCK_AT_START
    for plan in blocks_plan(experiment):
        for arm in plan.arms:
            now = _run_arm(folder, experiment, plan, arm, now + 2, (gains or GAINS)[arm.name], noise)
    folder.close()
    return folder


def _run_arm(folder, experiment: Experiment, plan, arm, started_at: float, gain: float, noise: float) -> float:
    random_stream = random.Random(f"{plan.seed} {arm.name}")
    instants = experiment.timeline(plan.seed)
    segments = capacities(experiment.wan, instants)
    dcs = experiment.wan.dcs
    graph = networkx.DiGraph(list(experiment.wan.edges))
    routes = {(a, b): networkx.shortest_path(graph, a, b) for a in dcs for b in dcs if a != b}
    now = started_at
    for index in range(experiment.collectives):
        if arm.reorder_every and index and index % arm.reorder_every == 0:
            changed = random_stream.random() < 0.6
            times = {"started_at": now, "ended_at": now + 0.05, "probe_s": 0.04, "decide_s": 0.005, "agree_s": 0.005}
            change = {"event": "ring_change", "before_collective": index, "changed": changed, **times}
            folder.append(plan.block, arm.name, "ring_changes", change)
            now += 0.05
        rates = next(rates for at_s, rates in reversed(segments) if at_s <= now - started_at)
        took = (
            min(30.0, ring_limit_s(rates, dcs, routes, experiment.size_bytes))
            / gain
            * random_stream.lognormvariate(0, noise)
        )
        limit_s = allgather_limit_over_time_s(segments, dcs, experiment.size_bytes, now - started_at)
        record = {"event": "collective", "index": index, "start": now, "end": now + took, "limit_s": min(limit_s, took)}
        folder.append(plan.block, arm.name, "collectives", record)
        now += took
    for instant in instants:
        if instant.at_s <= now - started_at:
            at = started_at + instant.at_s
            rates = [[*edge, rate_bps] for edge, rate_bps in instant.rates_bps.items()]
            times = {"planned_s": instant.at_s, "begun_at": at, "applied_at": at + 0.001}
            folder.append(plan.block, arm.name, "changes", {**times, "rates": rates})
            if arm.wan_policy == "widest":
                folder.append(plan.block, arm.name, "reconfigurations", _reconfiguration(at))
    verdict = Verdict(True, (), {"cpu_idle_mean": 0.4, "starved_share": 0.0, "stray_drops": {}})
    finished = {"block": plan.block, "arm": arm.name, "seed": plan.seed, "started_at": started_at, "ended_at": now}
    folder.append_arm({**finished, "verdict": asdict(verdict)})
    return now


def _reconfiguration(at: float) -> dict:
    move = {"pair": ["tokyo", "virginia"], "from": ["tokyo", "oregon", "virginia"], "to": ["tokyo", "virginia"]}
    times = {"happened_at": at, "seen_at": at + 0.001, "decided_at": at + 0.002, "installed_at": at + 0.01}
    return {"event": "reconfiguration", "cause": "capacity", **times, "moves": [move]}
