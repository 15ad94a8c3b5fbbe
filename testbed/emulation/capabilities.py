"""What this kernel and this Open vSwitch can emulate, found by trying it where it leaves no trace.

Queueing disciplines are tried on the loopback interface of a network namespace that is gone a moment later.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from testbed.emulation import qdisc
from testbed.emulation.namespaces import inside_new
from testbed.emulation.trafficcontrol import BUCKET_HANDLE, ROOT, TrafficControl, TrafficControlError
from topologies import EdgeProperties, InputError, RingroadError

LOOPBACK_INDEX = 1
TCP_SYSCTLS = Path("/proc/sys/net/ipv4")


@dataclass(frozen=True)
class Capabilities:
    """What can be emulated here. `congestion_controls` are those that a DC may use."""

    kernel: str
    tbf: bool
    netem: bool
    blackhole: bool
    openvswitch_datapath: str
    """`system` is the kernel's own, `netdev` the one in user space."""
    congestion_controls: tuple[str, ...]
    default_congestion_control: str

    def check_congestion_control(self, wanted: str | None) -> None:
        """InputError unless the kernel has it; None is whatever the host has."""
        known = self.congestion_controls
        if wanted is not None and wanted not in known:
            remedy = f"choose among {', '.join(known)}, or load it: modprobe tcp_{wanted}"
            raise InputError("this kernel has no such congestion control", value=wanted, remedy=remedy)


def detect() -> Capabilities:
    """Look once; costs milliseconds. RingroadError when not root."""
    if os.geteuid() != 0:
        raise RingroadError("only root can make network namespaces", "run it as root: sudo .venv/bin/ringroad …")
    tbf, netem, blackhole = inside_new(_try_disciplines)
    return Capabilities(
        kernel=os.uname().release,
        tbf=tbf,
        netem=netem,
        blackhole=blackhole,
        openvswitch_datapath="system" if _has_generic_family("ovs_datapath") else "netdev",
        congestion_controls=tuple((TCP_SYSCTLS / "tcp_available_congestion_control").read_text().split()),
        default_congestion_control=(TCP_SYSCTLS / "tcp_congestion_control").read_text().strip(),
    )


def _try_disciplines() -> tuple[bool, bool, bool]:
    tree = qdisc.wanted_tree(EdgeProperties(1e8, delay_s=0.01), netem=True)
    assert tree.impairment is not None
    with TrafficControl() as control:
        netem = _works(control, "netem", qdisc.encode_impairment(tree.impairment), ROOT, BUCKET_HANDLE)
        if netem:
            control.remove(LOOPBACK_INDEX, ROOT, BUCKET_HANDLE)
        tbf = _works(control, "tbf", qdisc.encode_bucket(tree.bucket), ROOT, BUCKET_HANDLE)
        try:
            control.swallow(LOOPBACK_INDEX)
        except TrafficControlError:
            return tbf, netem, False
    return tbf, netem, True


def _works(control: TrafficControl, kind: str, options: bytes, parent: int, handle: int) -> bool:
    try:
        control.add(LOOPBACK_INDEX, parent, handle, kind, options)
    except TrafficControlError as error:
        if error.code in (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL):
            return False
        raise
    return True


def _has_generic_family(name: str) -> bool:
    """Asking for a family loads its module where there is one."""
    with GenericNetlinkSocket() as netlink:
        netlink.module_err_level = "debug"
        try:
            netlink.discovery(name)
        except NetlinkError:
            return False
    return True
