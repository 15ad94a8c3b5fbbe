"""The programs that Ringroad calls, and a clear word where one is missing."""

from __future__ import annotations

import shutil

from topologies.errors import RingroadError

PROGRAMS = {
    "mnexec": "mininet",
    "iperf3": "iperf3",
    "ovs-vsctl": "openvswitch-switch",
    "ip": "iproute2",
    "setpriv": "util-linux",
}
"""What is called, and the apt package that has it."""


def remedy(program: str) -> str:
    """How to get one of `PROGRAMS`."""
    return f"apt-get install {PROGRAMS[program]} (scripts/setup does that)"


def require(*programs: str) -> None:
    """RingroadError for the first of these, all of them in `PROGRAMS`, that is not in PATH."""
    for program in programs:
        if shutil.which(program) is None:
            raise RingroadError(f"{program} is not installed, or not in PATH", remedy(program))
