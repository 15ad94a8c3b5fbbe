"""Virtual Ethernet pairs over netlink: made, set up, switched on and off, removed. Knows nothing of WANs or Mininet."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import IoctlEthtool
from pyroute2.netlink.exceptions import NetlinkError

from testbed.emulation.namespaces import inside
from testbed.emulation.plan import MTU_BYTES, PREFIX_LENGTH, SitePlan

NO_SUCH_DEVICE = 19
OFFLOADS = (
    "rx-checksumming",
    "tx-checksumming",
    "scatter-gather",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
)
Key = TypeVar("Key")
PERMANENT = 0x80
"""NUD_PERMANENT of linux/neighbour.h: an entry that is never asked for and never ages."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TcpSettings:
    """What TCP does inside a DC. None leaves the kernel's own.

    A connection keeps its window while it rests: collectives come in bursts, and each would begin slowly again.
    """

    congestion_control: str | None = "cubic"
    receive_buffer_bytes: tuple[int, int, int] = (4096, 131072, 6291456)
    send_buffer_bytes: tuple[int, int, int] = (4096, 65536, 4194304)


def open_netlink() -> IPRoute:
    """A connection to the kernel's routing netlink; the caller closes it, with `close_netlink`."""
    return IPRoute()


@contextmanager
def netlink_for_now() -> Iterator[IPRoute]:
    """A connection for as long as the context lasts."""
    netlink = open_netlink()
    try:
        yield netlink
    finally:
        close_netlink(netlink)


def close_netlink(netlink: IPRoute) -> None:
    """Close it, also one that an interrupt has left in the middle of a request: its socket goes with the process."""
    try:
        netlink.close()
    except (RuntimeError, OSError) as error:
        log.debug("a netlink connection that was interrupted: %s", error)


def add_pair(netlink: IPRoute, first: str, second: str) -> None:
    """A veth pair with jumbo frames, both ends here and down."""
    netlink.link("add", ifname=first, kind="veth", mtu=MTU_BYTES, peer={"ifname": second, "mtu": MTU_BYTES})


def indexes(interface_names: Mapping[Key, str]) -> dict[Key, int]:
    """The kernel's index of each of these interfaces of this namespace, which must exist.

    By one system call each: all that netlink tells of a link takes Python a tenth of a second on a slow kernel.
    """
    return {key: socket.if_nametoindex(name) for key, name in interface_names.items()}


def is_up(name: str) -> bool:
    """Whether an interface of this namespace is up and has a carrier. (Its `operstate` follows a moment later.)"""
    try:
        return Path(f"/sys/class/net/{name}/carrier").read_text().strip() == "1"
    except OSError as error:
        if error.errno != errno.EINVAL:  # The kernel's answer for an interface that is down.
            raise
        return False


def drops(name: str) -> int:
    """Packets that an interface of this namespace has thrown away itself, coming or going; its queue's not counted."""
    folder = Path(f"/sys/class/net/{name}/statistics")
    return sum(int((folder / counter).read_text()) for counter in ("rx_dropped", "tx_dropped"))


def names(netlink: IPRoute) -> list[str]:
    """Names of all interfaces here."""
    return [link.get_attr("IFLA_IFNAME") for link in netlink.get_links()]


def remove(netlink: IPRoute, interface_names: Iterable[str]) -> list[str]:
    """Delete interfaces; a pair goes whole, and what is gone already does not matter. Names that were deleted."""
    removed = []
    for name in interface_names:
        try:
            netlink.link("del", ifname=name)
        except NetlinkError as error:
            if error.code != NO_SUCH_DEVICE:
                raise
        else:
            removed.append(name)
    return removed


def silence(name: str) -> None:
    """No IPv6 on an interface of this namespace: no packet leaves it that nobody asked for."""
    setting = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
    if setting.exists():
        setting.write_text("1")


def switch_off_offloads(interface_names: Iterable[str]) -> None:
    """Checksums and segmentation are done before a packet leaves: OVS in user space needs whole packets, with sums."""
    with closing(IoctlEthtool()) as ethtool:
        for name in interface_names:
            ethtool.change_ifname(name)
            for offload in OFFLOADS:
                ethtool.set_offload_flag(offload, 0)


def configure_host(pid: int, site: SitePlan, neighbors: Iterable[SitePlan], tcp: TcpSettings) -> None:
    """Set up the namespace of a site's host: its address, everybody's link-layer address, TCP, no IPv6."""
    inside(pid, lambda: _configure_here(site, neighbors, tcp))


def _configure_here(site: SitePlan, neighbors: Iterable[SitePlan], tcp: TcpSettings) -> None:
    _write_sysctls(tcp)
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
        eth0 = socket.if_nametoindex("eth0")
        netlink.addr("add", index=eth0, address=site.ip, prefixlen=PREFIX_LENGTH)
        switch_off_offloads(["eth0"])
        netlink.link("set", index=eth0, state="up")
        if tcp.congestion_control:
            _set_congestion_control(netlink, eth0, site, tcp.congestion_control)
        for other in neighbors:
            if other.number != site.number:
                netlink.neigh("add", ifindex=eth0, dst=other.ip, lladdr=other.mac, state=PERMANENT)


def _set_congestion_control(netlink: IPRoute, eth0: int | None, site: SitePlan, name: str) -> None:
    """On the route to everybody: the namespace's own setting admits only what the whole host allows unprivileged."""
    network = ip_interface(f"{site.ip}/{PREFIX_LENGTH}").network
    metrics = {"cc_algo": name}
    netlink.route("replace", dst=str(network), oif=eth0, scope="link", proto="kernel", prefsrc=site.ip, metrics=metrics)


def _write_sysctls(tcp: TcpSettings) -> None:
    net = Path("/proc/sys/net")
    values = {
        "ipv6/conf/all/disable_ipv6": "1",
        "ipv6/conf/default/disable_ipv6": "1",
        "ipv4/tcp_rmem": " ".join(map(str, tcp.receive_buffer_bytes)),
        "ipv4/tcp_wmem": " ".join(map(str, tcp.send_buffer_bytes)),
        "ipv4/tcp_no_metrics_save": "1",
        "ipv4/tcp_slow_start_after_idle": "0",
    }
    for name, value in values.items():
        if (net / name).exists():
            (net / name).write_text(value)
