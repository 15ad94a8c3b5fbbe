"""A person's program on the emulated WAN, from the command line to a run folder: every arm of every block once.

Results so far are kept whatever happens; nothing else stays behind.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from testbed.bed import Testbed
from testbed.emulation.interfaces import TcpSettings
from testbed.emulation.processes import Watch
from testbed.emulation.programs import require
from testbed.execution.arm import Program, ProgramRun, ProgramSetting
from testbed.execution.ranks import RankFailed
from testbed.execution.summary import KIND
from testbed.experiment import Experiment, blocks_plan
from testbed.progress import Progress
from testbed.runfolder import GATE, MANIFEST, RunFolder
from testbed.runner import gate, manifest
from topologies.errors import InputError, RingroadError, refused_by_system


def run_command(
    experiment: Experiment,
    program: Program,
    progress: Progress,
    *,
    step: str,
    out: Path | None = None,
    with_gate: bool = True,
    shown: TextIO | None = None,
) -> RunFolder:
    """Run the program in every arm of every block, and return the folder. Blocks until all of them are done.

    RankFailed after the first arm in which a process fails, ProcessDied or another RingroadError naming the culprit:
    the folder then holds what there was. `step` is the pattern that the summary finds the times of steps with.
    """
    require("mnexec", "setpriv", *(["iperf3"] if with_gate else []))
    check_command(program.command)
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
            with bed, Watch(bed.processes()) as watch, _blaming(watch):
                asked = {"kind": KIND, "program": asdict(program), "step": step, "with_gate": with_gate}
                folder.write_json(MANIFEST, manifest(experiment, bed) | asked)
                if with_gate:
                    progress.phase("fidelity gate: loading every link at once")
                    folder.write_json(GATE, gate(bed, experiment))
                _all_arms(ProgramSetting(bed, experiment, folder, program, watch, shown), progress)
        finally:
            folder.remove_unless_anything_is_kept()
    return folder


def check_command(command: tuple[str, ...]) -> None:
    """InputError if its program cannot be found as it will be searched for: first beside Ringroad's own Python."""
    searched = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if shutil.which(command[0], path=searched) is None:
        raise InputError(
            "no such program",
            place="COMMAND",
            value=command[0],
            remedy="give a program that is in PATH, or the path of one that may be executed, as in: -- python train.py",
        )


def _all_arms(setting: ProgramSetting, progress: Progress) -> None:
    plan = blocks_plan(setting.experiment)
    for block in plan:
        for arm in block.arms:
            progress.phase(f"block {block.block} of {len(plan)}: {arm.name}")
            ends = ProgramRun(setting, block, arm).run()
            if any(end.returncode != 0 for end in ends):
                raise RankFailed(ends)


@contextmanager
def _blaming(watch: Watch) -> Iterator[None]:
    """What goes wrong because a process of ours died or was stopped is blamed on it."""
    try:
        yield
    except RankFailed:
        raise
    except BrokenPipeError:
        raise
    except (RingroadError, OSError) as error:
        if isinstance(error, OSError):
            error = refused_by_system(error, "the run cannot go on")
        raise (watch.dead() or watch.stopped() or error) from error
