"""Removes what a run left behind whose owner is dead, and nothing else.

What belongs to a run is known by its run id: the label of a bridge, the prefix of an interface, the mark in the
environment of a process, the record in its state folder. A run whose owner lives is left alone.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute

from testbed.emulation import interfaces, openvswitch
from testbed.emulation.plan import RUN_ID
from testbed.emulation.processes import end, marked_pids, recorded
from testbed.emulation.state import STATE_ROOT, owners, remove_state_folder
from topologies import RingroadError

log = logging.getLogger(__name__)
_INTERFACE = re.compile(rf"r({RUN_ID.pattern})[sh]\d+(-e\d+)?")
_UNFINISHED_FOLDER = re.compile(rf"\.{RUN_ID.pattern}\.(\d+)")


@dataclass(frozen=True)
class _Dead:
    """A run whose owner is gone."""

    run_id: str

    @property
    def folder(self) -> Path:
        return STATE_ROOT / self.run_id


def clean() -> list[str]:
    """Remove everything of every dead run; what was removed, in words. Safe while other runs live. Needs root.

    OpenVSwitchError if bridges are left and Open vSwitch does not answer: all else is removed by then, and the state
    folder stays, so that a later call finds the rest.
    """
    dead = [_Dead(run_id) for run_id, owner in owners().items() if owner is None or not owner.alive]
    removed: list[str] = []
    failure: RingroadError | None = None
    for run in dead:
        removed += _end_processes(run)
        try:
            removed += _remove_bridges(run)
        except RingroadError as error:
            failure = error
        removed += _remove_interfaces(run)
        if failure is None:
            remove_state_folder(run.folder)
            removed.append(f"state of run {run.run_id}")
    removed += _remove_unfinished_folders()
    if failure is not None:
        raise failure
    return removed


def _end_processes(run: _Dead) -> Iterator[str]:
    names = {process.pid: process.name for process in recorded(run.folder) if process.alive}
    for pid in end({*names, *marked_pids(run.run_id)}):
        yield f"process {pid} ({names.get(pid, 'started by the run')})"


def _remove_bridges(run: _Dead) -> list[str]:
    if shutil.which("ovs-vsctl") is None:
        return []
    bridges = [name for name, run_id in openvswitch.labelled_bridges().items() if run_id == run.run_id]
    openvswitch.vsctl(openvswitch.deletion_commands(bridges), wait=openvswitch.is_running())
    return [f"bridge {name}" for name in bridges]


def _remove_interfaces(run: _Dead) -> list[str]:
    """Both ends of a veth pair go with either; bridges' own went with the bridges."""
    with IPRoute() as netlink:
        names = [link.get_attr("IFLA_IFNAME") for link in netlink.get_links()]
        ours = [name for name in names if (found := _INTERFACE.fullmatch(name)) and found[1] == run.run_id]
        interfaces.remove(netlink, ours)
    return [f"interface {name}" for name in ours]


def _remove_unfinished_folders() -> Iterator[str]:
    """State folders whose maker died before they had their name."""
    for folder in STATE_ROOT.glob(".*"):
        found = _UNFINISHED_FOLDER.fullmatch(folder.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            remove_state_folder(folder)
            yield f"unfinished state folder {folder.name}"
