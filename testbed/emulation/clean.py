"""Removes what a run left behind whose owner is dead, and nothing else.

What belongs to a run is known by its run id: the label of a bridge, the prefix of an interface, the mark in the
environment of a process, the record in its state folder. A run whose owner lives is left alone.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

from pyroute2 import IPRoute

from testbed.emulation import hostsettings, interfaces, openvswitch, switchdaemon
from testbed.emulation.openvswitch import OpenVSwitchError
from testbed.emulation.plan import is_name_of
from testbed.emulation.processes import end, inhabitants, marked_pids, recorded
from testbed.emulation.state import STATE_ROOT, forget_end, living_runs, owners, remove_state_folder, unfinished_folders
from topologies.errors import RingroadError

log = logging.getLogger(__name__)


def clean() -> list[str]:
    """Remove everything of every dead run; what was removed, in words. Safe while other runs live. Needs root.

    RingroadError without root, to whom every run looks dead. OpenVSwitchError if bridges are left and Open vSwitch does
    not answer: all else is removed by then, and the state folder stays, so that a later call finds the rest.
    """
    if os.geteuid() != 0:
        raise RingroadError("only root can remove what runs left", "run it as root: sudo .venv/bin/ringroad …")
    dead = _dead_runs()
    removed: list[str] = []
    failure: OpenVSwitchError | None = None
    for run_id in dead:
        removed += _end_processes(run_id)
        try:
            removed += _remove_bridges(run_id)
        except OpenVSwitchError as error:
            failure = error
        removed += _remove_interfaces(run_id)
        if failure is None:
            remove_state_folder(STATE_ROOT / run_id)
            removed.append(f"state of run {run_id}")
    for folder in unfinished_folders():
        remove_state_folder(folder)
        removed.append(f"unfinished state folder {folder.name}")
    if forget_end():
        removed.append("the note of how the last testbed ended")
    if hostsettings.give_back():
        removed.append("vm.max_map_count as a run had set it")
    if dead and not living_runs():
        _restore_switch_daemon()
    if failure is not None:
        raise failure
    return removed


def _dead_runs() -> list[str]:
    """Bridges are looked up first: a run has its folder before its bridges, so one without an owner is dead, not new.

    Open vSwitch keeps bridges over a reboot, and /run keeps no folder.
    """
    bridges: dict[str, str] = {}
    with suppress(OpenVSwitchError):
        bridges = openvswitch.labelled_bridges()
    return sorted({*owners(), *bridges.values()} - living_runs())


def _end_processes(run_id: str) -> Iterator[str]:
    names = {process.pid: process.name for process in recorded(STATE_ROOT / run_id) if process.alive}
    for pid in end({*names, *marked_pids(run_id), *inhabitants(run_id, STATE_ROOT / run_id)}):
        yield f"process {pid} ({names.get(pid, 'started by the run')})"


def _remove_bridges(run_id: str) -> list[str]:
    if shutil.which("ovs-vsctl") is None:
        return []
    bridges = [name for name, owner in openvswitch.labelled_bridges().items() if owner == run_id]
    openvswitch.vsctl(openvswitch.deletion_commands(bridges), wait=openvswitch.is_running())
    return [f"bridge {name}" for name in bridges]


def _remove_interfaces(run_id: str) -> list[str]:
    """Both ends of a veth pair go with either; a bridge's own is left only where the daemon died before the bridge."""
    with IPRoute() as netlink:
        ours = [name for name in interfaces.names(netlink) if is_name_of(name, run_id)]
        interfaces.remove(netlink, ours)
    return [f"interface {name}" for name in ours]


def _restore_switch_daemon() -> None:
    pid = openvswitch.switch_daemon_pid()
    if pid is not None:
        switchdaemon.restore(pid)
