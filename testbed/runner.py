"""A whole run: the testbed up, the fidelity gate, every block × arm, and a run folder that tells all of it.

The only module that sees every part at once. Results so far are kept whatever happens; nothing else stays behind.
"""

from __future__ import annotations

import logging
import os
import platform
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from testbed import machine
from testbed.arm import ArmSetting, run_arm
from testbed.bed import Testbed
from testbed.emulation.interfaces import TcpSettings
from testbed.emulation.precedence import last
from testbed.emulation.programs import require
from testbed.experiment import Experiment, blocks_plan
from testbed.gate import gate
from testbed.kernels.inside import label, ran_on
from testbed.launching import blaming, launcher
from testbed.progress import Progress
from testbed.runfolder import GATE, MANIFEST, RunFolder
from testbed.startorder import measure_start_order

log = logging.getLogger(__name__)

PACKAGES = ("ringroad", "torch", "ryu", "os-ken", "eventlet", "mininet", "pyroute2", "numpy")


def run_experiment(experiment: Experiment, progress: Progress, out: Path | None = None) -> RunFolder:
    """Run it, and return the folder with everything measured. Blocks until all blocks are done.

    Raises ProcessDied, WorkerFailed or another RingroadError naming the culprit; the folder then holds what there was.
    """
    require("iperf3", "mnexec")
    bed = Testbed(
        experiment.wan,
        controller=experiment.controller.settings("shortest"),
        feed=experiment.controller.feed,
        tcp=TcpSettings(congestion_control=experiment.congestion_control),
    )
    with RunFolder.create(experiment.name, bed.run_id, experiment.text, out=out) as folder:
        progress.keep_in(folder.path)
        bed.log_folder = folder.logs
        progress.phase("bringing the WAN up")
        try:
            with bed:
                folder.write_json(MANIFEST, manifest(experiment, bed))
                _run_on(bed, experiment, folder, progress)
        finally:
            folder.remove_unless_anything_is_kept()
    return folder


def _run_on(bed: Testbed, experiment: Experiment, folder: RunFolder, progress: Progress) -> None:
    socket = bed.state / "workers.sock"
    with ExitStack() as workers:
        with ExitStack() as meanwhile:

            def start_workers() -> None:
                """Their launcher imports torch meanwhile; where there is one processor, links have it first."""
                process = workers.enter_context(launcher(bed, socket, folder.logs / "workers.log"))
                workers.enter_context(blaming(bed, process, socket))
                if len(os.sched_getaffinity(0)) == 1:
                    meanwhile.enter_context(last(process.pid))

            progress.phase("fidelity gate: probing every link, then loading all at once")
            folder.write_json(GATE, gate(bed, experiment, start_workers))
        plan = blocks_plan(experiment)
        progress.begin(len(plan) * len(experiment.arms) * experiment.collectives)
        setting = ArmSetting(bed, experiment, folder, socket, progress.advance)
        for block in plan:
            start_order = None
            if experiment.initial_order == "measured_once":
                progress.phase(f"block {block.block} of {len(plan)}: measuring the order to start with")
                start_order, record = measure_start_order(setting, block)
                folder.append_start_order(record)
            for arm in block.arms:
                progress.phase(f"block {block.block} of {len(plan)}: {arm.name}")
                run_arm(setting, block, arm, start_order)


def manifest(experiment: Experiment, bed: Testbed) -> dict[str, Any]:
    """What a reader needs to repeat the run or to doubt it."""
    return {
        "run_id": bed.run_id,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "started_at": time.monotonic(),
        "experiment": experiment.to_json(),
        "labels": [*experiment.labels(), label()],
        "notes": list(bed.notes),
        "capabilities": bed.capabilities,
        "machine": {**machine.describe(), "ringroad": machine.commit()},
        "kernel": platform.release(),
        "ran_on": ran_on(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None
