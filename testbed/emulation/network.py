"""The network of one run in the kernel: bridges, namespaces, veth pairs; made, joined to a controller, removed.

It knows nothing of rates (`shaper`), of routes (the controller) or of processes in the DCs.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

from mininet.net import Mininet
from pyroute2 import IPRoute

from testbed.emulation import interfaces, openvswitch
from testbed.emulation.interfaces import TcpSettings
from testbed.emulation.nodes import KnownInterface, SiteHost, SiteSwitch, empty_mininet
from testbed.emulation.plan import HOST_PORT, PREFIX_LENGTH, NetworkPlan
from testbed.emulation.tcpbuffers import sized_for


class Network:
    """What `up` makes and `down` removes. `net` holds Mininet's own objects for it."""

    def __init__(self, plan: NetworkPlan, datapath: str, tcp: TcpSettings, record: Callable[[str, int], None]) -> None:
        """`record` is told name and pid of every process as it starts."""
        self.plan = plan
        self.net: Mininet = empty_mininet()
        self._datapath = datapath
        self._tcp = sized_for(tcp, plan.wan)
        self._record = record

    def up(self, netlink: IPRoute) -> None:
        """Make everything. When it raises, `down` removes what exists by then."""
        self._start_nodes()
        for site in self.plan.sites.values():
            temporary = f"{site.host}-e0"
            interfaces.add_pair(netlink, site.host_port, temporary)
            index = socket.if_nametoindex(temporary)
            netlink.link("set", index=index, ifname="eth0", address=site.mac, net_ns_pid=self.host(site.site).pid)
        for link in self.plan.wan.links:
            forward, backward = self.plan.link_ports(link)
            interfaces.add_pair(netlink, forward.interface, backward.interface)
        for site in self.plan.sites.values():
            interfaces.configure_host(self.host(site.site).pid, site, self.plan.sites.values(), self._tcp)
        self._raise_switch_side(netlink)
        openvswitch.wait_until_it_counts()
        openvswitch.vsctl(openvswitch.bridge_commands(self.plan, self._datapath), run_id=self.plan.run_id)
        self._tell_mininet()

    def connect(self, port: int) -> None:
        """Point every bridge at the controller that listens on 127.0.0.1:`port`."""
        openvswitch.vsctl(openvswitch.controller_commands((s.switch for s in self.plan.sites.values()), port))

    def host(self, site: str) -> SiteHost:
        """Mininet's host of a site."""
        return self.net[self.plan.sites[site].host]

    def down(self, netlink: IPRoute) -> None:
        """Remove bridges, interfaces and namespaces; whatever does not exist (any more) is no error.

        A step that fails keeps no other from being done; its error is raised at the end.
        """
        bridges = [site.switch for site in self.plan.sites.values()]
        with ExitStack() as last_first:
            for node in (*self.net.hosts, *self.net.switches):
                last_first.callback(node.terminate)
            # A dead daemon in user space leaves the tap device of each of its bridges.
            last_first.callback(interfaces.remove, netlink, [*self.interface_names(), *bridges])
            deletion = openvswitch.deletion_commands(bridges)
            last_first.callback(openvswitch.vsctl, deletion, wait=openvswitch.is_running())

    def interface_names(self) -> list[str]:
        """One end of every veth pair; the other goes with it."""
        access = [site.host_port for site in self.plan.sites.values()]
        return access + [self.plan.link_ports(link)[0].interface for link in self.plan.wan.links]

    def switch_interfaces(self) -> list[str]:
        """Every interface that is a port of a switch."""
        return [site.host_port for site in self.plan.sites.values()] + [p.interface for p in self.plan.ports.values()]

    def _start_nodes(self) -> None:
        for site in self.plan.sites.values():
            host = self.net.addHost(site.host, cls=SiteHost, ip=None, run_id=self.plan.run_id)
            self._record(site.host, host.pid)
        for site in self.plan.sites.values():
            switch = self.net.addSwitch(site.switch, cls=SiteSwitch, dpid=f"{site.dpid:x}", run_id=self.plan.run_id)
            self._record(site.switch, switch.pid)

    def _raise_switch_side(self, netlink: IPRoute) -> None:
        names = self.switch_interfaces()
        interfaces.switch_off_offloads(names)
        for name in names:
            interfaces.silence(name)
            netlink.link("set", index=socket.if_nametoindex(name), state="up")

    def _tell_mininet(self) -> None:
        for site in self.plan.sites.values():
            self.net.addLink(
                site.host,
                site.switch,
                port1=0,
                port2=HOST_PORT,
                intfName1="eth0",
                intfName2=site.host_port,
                addr1=site.mac,
                params1={"ip": site.ip, "prefix_length": PREFIX_LENGTH},
            )
        for link in self.plan.wan.links:
            forward, backward = self.plan.link_ports(link)
            self.net.addLink(
                forward.switch,
                backward.switch,
                port1=forward.number,
                port2=backward.number,
                intfName1=forward.interface,
                intfName2=backward.interface,
            )
        assert all(isinstance(intf, KnownInterface) for link in self.net.links for intf in (link.intf1, link.intf2))
