"""A live testbed from its coming up to its end: all parts in one process, which owns the emulated WAN.

Blocks until somebody asks for the end, a signal comes, or a process dies that it depends on.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.emulation.processes import ProcessDied, Watch
from testbed.kernels import inside
from testbed.live.hub import Hub
from testbed.live.loop import Loop, LoopSettings
from testbed.live.network import LiveNetwork
from testbed.live.operations import REORDERING_ARMS, Operations, Parts
from testbed.live.protocol import SOCKET, Control, DownEvent
from testbed.live.server import Server
from testbed.live.showing import DashboardSettings, start_dashboard
from testbed.live.steering import MOVING_ARMS, STILL, Steering
from testbed.live.tracing import LiveTrace, Tracing
from topologies.model import Wan

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveSettings:
    """What a live testbed begins with. `period_s` is T_wan; `policy` the path policy of arms whose paths move.

    `workers` None: none; `dashboard` too.
    """

    wan: Wan
    arm: str = "static"
    workers: LoopSettings | None = None
    reorder_every: int = 4
    period_s: float = 0.5
    policy: str = "widest"
    stack: str = "ryu"
    trace: LiveTrace | None = None
    seed: int = 1
    dashboard: DashboardSettings | None = None

    @property
    def control(self) -> Control:
        """Which loops act at the start."""
        policy = self.policy if self.arm in MOVING_ARMS else STILL
        return Control(self.arm, policy, self.period_s, self.reorder_every)


def run(settings: LiveSettings, on_ready: Callable[[Parts], None]) -> None:
    """Bring it up, call `on_ready`, serve; returns when it has been taken down because somebody asked.

    ProcessDied when something died that it depends on; RingroadError when it cannot be brought up.
    """
    control = settings.control
    bed = Testbed(
        settings.wan,
        controller=ControllerSettings(policy=control.policy, period_s=control.period_s, stack=settings.stack),
    )
    stop, failures = threading.Event(), list[Exception]()

    def failed(error: Exception) -> None:
        failures.append(error)
        stop.set()

    with bed, Watch(bed.processes(), on_death=failed) as watch, ExitStack() as stack:
        parts = _assembled(settings, bed, stack, stop, failed)
        stack.callback(lambda: parts.hub.publish(DownEvent, "the testbed is being taken down"))
        if settings.dashboard is not None:
            _show(parts, settings.dashboard, stack)
        on_ready(parts)
        stop.wait()
        dead: ProcessDied | None = watch.dead()
    if dead is not None or failures:
        raise dead or failures[0]


def _assembled(
    settings: LiveSettings, bed: Testbed, stack: ExitStack, stop: threading.Event, failed: Callable[[Exception], None]
) -> Parts:
    """Every part, each closed by `stack` before those that it needs."""
    hub = Hub()
    steering = Steering(bed.state / "controller.sock", hub, settings.control, settings.policy)
    stack.callback(steering.close)
    loops: list[Loop] = []
    network = LiveNetwork(
        bed, hub, on_heal=lambda: [loop.network_is_better() for loop in loops] and None, failed=failed
    )
    stack.callback(network.close)
    tracing = Tracing(network, hub, settings.seed, settings.trace)
    stack.callback(tracing.close)
    if settings.workers is not None:
        loop = Loop(bed, hub, settings.workers, lambda: steering.control.arm, network.capacities)
        loops.append(loop)
        stack.callback(loop.close)
        loop.set_every(settings.reorder_every if settings.arm in REORDERING_ARMS else 0)
    if settings.trace is not None:
        tracing.start(settings.trace)
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    booted = inside.job()
    run_id, pid = (bed.run_id, os.getpid()) if booted is None else (booted.run_id, booted.pid)
    loop = loops[0] if loops else None
    parts = Parts(bed, hub, network, steering, tracing, loop, stop.set, started, run_id, pid)
    stack.enter_context(Server(bed.state / SOCKET, Operations(parts), hub))
    return parts


def _show(parts: Parts, settings: DashboardSettings, stack: ExitStack) -> None:
    """Start the dashboard. The testbed does not depend on it: where it dies, people are told."""

    bed = parts.bed
    process, parts.dashboard = start_dashboard(bed.start, bed.state / SOCKET, bed.log_folder, settings)
    stack.enter_context(Watch([process], on_death=lambda _: parts.show_at(None)))
