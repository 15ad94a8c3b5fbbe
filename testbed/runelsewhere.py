"""A whole run on another kernel than this machine's own: which one, with how much memory, and where its results go.

The run itself is the same command, inside; its report is made outside, where it takes a moment.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from testbed.emulation import state
from testbed.emulation.plan import new_run_id
from testbed.experiment import Experiment
from testbed.kernels import memory
from testbed.kernels.choosing import Kernel, needs_of
from testbed.kernels.duration import allgather_bytes, expected_wall_s
from testbed.kernels.relaunch import carry_out, other_kernel, this_command
from testbed.progress import Reporter
from testbed.runfolder import folder_name, make_empty
from topologies.units import format_duration

log = logging.getLogger(__name__)


def run_elsewhere(
    experiment: Experiment, kernel: Kernel, progress: Reporter, out: Path | None, memory_bytes: int | None = None
) -> int | None:
    """None if the experiment is to be run on this kernel; else it has been run on another, with this exit code.

    `progress` knows the run folder by then, if the run has made one. `memory_bytes` are what its collectives need,
    unless given.
    """
    choice = other_kernel(kernel, needs_of(experiment.wan, experiment.congestion_control))
    if choice is None:
        return None
    folder = out or Path("runs") / folder_name(experiment.name, new_run_id(state.owners()), datetime.now(UTC))
    make_empty(folder)
    log.info("expected: about %s", format_duration(wall_s(experiment, choice.kernel)))
    try:
        return carry_out(
            choice,
            this_command([] if out is not None else ["--out", str(folder)]),
            writable=[folder],
            memory_bytes=memory_bytes or memory.memory_for(len(experiment.wan.dcs), experiment.size_bytes),
            reporter=progress,
            log_folder=folder / "logs",
            seed=experiment.seed,
        )
    finally:
        with suppress(OSError):  # It holds something.
            folder.rmdir()


def wall_s(experiment: Experiment, kernel: Kernel) -> float:
    """How long a run on that kernel is expected to take, if every arm is as slow as the static one."""
    arms = len(experiment.arms) * experiment.blocks
    collectives = experiment.collectives + experiment.warmup
    sent_bytes = allgather_bytes(len(experiment.wan.dcs), experiment.size_bytes, collectives)
    return expected_wall_s(kernel, arms, experiment.expected_arm_s, sent_bytes)
