"""The ring order that every arm of a block starts with, where it is to be measured once and not as listed.

As PCCL does: before the first collective, on the network as it is then, and never again. Measured apart from the arms,
so that all of them start with the same order and none is charged for it; what it took is on record.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from testbed.arm import ArmSetting, Order, Trace, job_of, network_sources, starting
from testbed.bandwidths import BandwidthService
from testbed.dynamics.player import Player
from testbed.experiment import Arm, BlockPlan
from workers.client import WorkersClient
from workers.job import BackToBack

MEASURING = Arm("start", "shortest", 0)


def measure_start_order(setting: ArmSetting, block: BlockPlan) -> tuple[Order, dict[str, Any]]:
    """The order that the ring agent finds best at second 0 of the block on the shortest paths, and its record.

    Blocks for as long as that takes. WorkerFailed if a worker dies.
    """
    bed = setting.bed
    bed.reset()
    job = replace(
        job_of(setting, block, MEASURING), initial_order="measured_once", collectives=1, warmup=0, pacing=BackToBack()
    )
    instants = setting.experiment.timeline(block.seed)
    found: list[dict[str, Any]] = []
    with (
        network_sources(bed, Trace(())) as sources,
        BandwidthService(bed.state / "bandwidths.sock", sources),
        WorkersClient(setting.workers_socket) as workers,
    ):
        Player(instants, bed.wan, bed, record=_ignore, crash=_ignore, failed=_ignore).prepare()
        with starting(setting, workers):
            workers.start(job)
            workers.run(lambda event: found.append(event) if event["event"] == "ring_change" else None)
    return tuple(found[0]["to"]), {"block": block.block, "arm": asdict(MEASURING), **found[0]}


def _ignore(*_: object) -> None:
    """What is set before second 0 is the block's own beginning: its arms write it down."""
