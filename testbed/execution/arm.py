"""One arm of a person's program: the WAN moves, the loops of the arm act, every process runs to its end.

Expects a testbed that is up; leaves it ready for the next arm, and none of the processes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from testbed.arm import Trace, announce, journal, network_sources
from testbed.bandwidths import BandwidthService
from testbed.bed import Testbed
from testbed.dynamics.player import Player
from testbed.dynamics.timeline import capacities
from testbed.emulation.processes import Watch, end, pids_with
from testbed.execution.beginning import Beginning, From
from testbed.execution.collected import Collected
from testbed.execution.environment import FIRST_PORT, RUN_ID, Place, places, torchrun_environment, whole_environment
from testbed.execution.limits import Limits
from testbed.execution.output import Terminal
from testbed.execution.plugin import make_plugin
from testbed.execution.ranks import OutOfTime, RankEnd, Ranks, worst_exit_code
from testbed.execution.service import MessageService
from testbed.experiment import Arm, BlockPlan, Experiment
from testbed.fidelity import judge_arm
from testbed.fidelity_sampling import CpuSampler
from testbed.interruption import Interrupted
from testbed.runfolder import RunFolder
from topologies.errors import RingroadError
from topologies.units import format_duration
from workers.job import Agent, Job, Rank, job_to_json

PROJECT = Path(__file__).parents[2]
PORTS = 1000
"""Each arm has a port of its own for the store, so that none meets what is left of the one before."""


@dataclass(frozen=True)
class Program:
    """What is run: the command, how often in each DC, and what gloo means: the `ring` backend, or `gloo`.

    `grace_s` is what processes have to end by themselves once one has failed, or a signal has come. Second 0 of the
    trace is when all ranks have `joined` their first group, or the `start` of the processes.
    """

    command: tuple[str, ...]
    per_dc: int = 1
    gloo: str = "ring"
    grace_s: float = 5.0
    trace_from: From = "joined"


@dataclass(frozen=True)
class ProgramSetting:
    """What an arm runs on, and where the output of all ranks is shown (None: nowhere)."""

    bed: Testbed
    experiment: Experiment
    folder: RunFolder
    program: Program
    watch: Watch
    shown: TextIO | None


class ProgramRun:
    """The program once. `run` is all there is to it."""

    def __init__(self, setting: ProgramSetting, block: BlockPlan, arm: Arm) -> None:
        self._setting, self._block, self._arm = setting, block, arm
        self._bed, self._experiment = setting.bed, setting.experiment
        self._places = places(self._bed.wan.dcs, setting.program.per_dc)
        self._logs = setting.folder.logs / f"block{block.block}-{arm.name}"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._troubles: list[Exception] = []
        terminal = Terminal(setting.shown, self._trouble)
        self._ranks = Ranks(self._places, self._logs, terminal, setting.program.grace_s)
        self._instants = self._experiment.timeline(block.seed)
        self._player = Player(
            self._instants, self._bed.wan, self._bed, record=self._record, crash=self._crash, failed=self._trouble
        )
        self._trace = Trace(capacities(self._bed.wan, self._instants))
        self._limits = Limits(self._trace.segments, self._bed.wan.dcs)
        self._beginning = Beginning(self._player, self._trace, self._limits)

    def run(self) -> list[RankEnd]:
        """Run it. Blocks until every process has ended and its record is kept; how each ended.

        OutOfTime after the experiment's `timeouts.arm`, ProcessDied
        if something that the run depends on has, Interrupted if a signal came: the processes get it, then are ended.
        """
        bed = self._bed
        bed.reset(self._block.seed)
        if bed.controller is not None:
            bed.controller.reset(self._arm.wan_policy, self._experiment.controller.period_s)
        self._player.prepare()
        drops, cpu = bed.stray_drops(), CpuSampler()
        launched_at = time.monotonic()
        try:
            with self._listening(), cpu:
                self._to_the_end(launched_at)
        finally:
            stray = {place: count - drops.get(place, 0) for place, count in bed.stray_drops().items()}
            verdict = judge_arm(self._beginning.since(cpu.samples), stray, self._experiment.tolerance)
            self._setting.folder.append_arm(
                {
                    "block": self._block.block,
                    "arm": self._arm.name,
                    "seed": self._block.seed,
                    "launched_at": launched_at,
                    "started_at": self._beginning.at,
                    "ended_at": time.monotonic(),
                    "verdict": verdict,
                    "exit_code": worst_exit_code(self._ranks.ends),
                    "ranks": [_described(end) for end in self._ranks.ends],
                }
            )
        return self._ranks.ends

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Answers the ring agent, hears what ranks and controller report, as long as the context lasts."""
        bed = self._bed
        dc_of = [place.dc for place in self._places]
        collected = Collected(dc_of, self._limits, self._record_or_end, self._announce, self._beginning.begin)
        with (
            network_sources(bed, self._trace) as sources,
            BandwidthService(bed.state / "bandwidths.sock", sources),
            journal(bed, self._record, self._trouble),
            MessageService(bed.state / "records.sock", collected.take),
        ):
            self._announce(bed.wan.dcs)
            yield

    def _to_the_end(self, launched_at: float) -> None:
        ranks = self._ranks
        try:
            ranks.start(self._bed.dc, self._setting.program.command, self._environment, self._trouble)
            self._beginning.expect(self._setting.program.trace_from)
            timeout_s = self._experiment.timeouts.arm_s
            done = ranks.wait(self._setting.watch.fileno(), launched_at + timeout_s)
            self._setting.watch.check()
            if self._troubles:
                raise self._troubles[0]
            if not done:
                raise OutOfTime(
                    f"block {self._block.block}, {self._arm.name}: not done after {format_duration(timeout_s)}",
                    "give more with --timeout; the outputs of all ranks are kept in the run folder",
                )
        except Interrupted as interrupt:
            ranks.pass_on(signal.Signals[str(interrupt)])
            raise
        finally:
            ranks.end()
            end(pids_with(RUN_ID, self._name))  # What has left its session, as a daemon does.
            ranks.close()
            self._beginning.end()

    @property
    def _name(self) -> str:
        """Of this run of the program, among all."""
        return f"{self._bed.run_id}-{self._block.block}-{self._arm.name}"

    def _environment(self, place: Place) -> dict[str, str]:
        program, bed, wan = self._setting.program, self._bed, self._bed.wan
        number = len(self._setting.folder.read_arms())
        torchrun = torchrun_environment(
            place,
            len(wan.dcs),
            program.per_dc,
            bed.dc(wan.dcs[0]).ip,
            FIRST_PORT + number % PORTS,
            self._name,
        )
        return whole_environment(
            os.environ,
            torchrun,
            json.dumps(job_to_json(self._job())),
            program.gloo,
            Path(sys.executable).parent,
            [make_plugin(bed.state), PROJECT],
        )

    def _job(self) -> Job:
        """What the `ring` backend of the program is asked to do: its agent's part alone counts."""
        experiment, state = self._experiment, self._bed.state
        return Job(
            ranks=tuple(Rank(place.dc) for place in self._places),
            size_bytes=experiment.size_bytes,
            log_folder=str(self._logs.resolve()),
            agent=Agent(
                every=self._arm.reorder_every,
                source=experiment.agent.source,
                policy=experiment.agent.policy,
                margin=experiment.agent.margin,
            ),
            initial_order=experiment.initial_order,
            bandwidth_socket=str(state / "bandwidths.sock"),
            records_socket=str(state / "records.sock"),
            seed=self._block.seed,
        )

    def _record(self, kind: str, entry: dict[str, Any]) -> None:
        self._setting.folder.append(self._block.block, self._arm.name, kind, entry)

    def _record_or_end(self, kind: str, entry: dict[str, Any]) -> None:
        """For threads: what cannot be kept, as on a full disk, ends the arm."""
        try:
            self._record(kind, entry)
        except RingroadError as error:
            self._trouble(error)

    def _announce(self, dcs: Sequence[str]) -> None:
        if self._experiment.controller.demands == "announced":
            announce(self._bed, self._experiment, [self._bed.wan.dcs.index(dc) for dc in dcs])

    def _crash(self, dc: str) -> None:
        for pid in self._ranks.pids_in(dc):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def _trouble(self, error: Exception) -> None:
        self._troubles.append(error)
        self._ranks.stop()


def _described(end: RankEnd) -> dict[str, Any]:
    return {
        **asdict(end.place),
        "exit_code": end.exit_code,
        "how": end.how,
        "ended_at": end.ended_at,
        "by_us": end.by_us,
        "log": str(end.log),
    }
