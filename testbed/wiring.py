"""How a WAN's sites and links map to switches and ports: by convention, or from a person's file. No network here.

By convention site i (from 1, in the order of the WAN file) is datapath id i, its host is on port 1 with the MAC address
02:00:00:00:HH:LL of i, and its links are on ports 2, 3, … in the order of the file. A wiring file says otherwise:

sites:
  tokyo: {dpid: 0x2a, bridge: br0, host: {port: 1, mac: "0c:42:a1:00:00:01"}, ports: {oregon: 5, singapore: 7}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from controller.settings import HostPort, Wiring
from testbed.emulation.openvswitch import PROTOCOL, RECONNECT_MS
from testbed.emulation.plan import HOST_PORT, NetworkPlan
from topologies.errors import Fault, did_you_mean
from topologies.fields import Strict
from topologies.model import Edge, Wan
from topologies.yamlfile import Loaded, load, validate

PortNumber = Annotated[int, Field(ge=1, le=0xFFFFFF00 - 1)]
"""OpenFlow 1.3 keeps the numbers above for itself."""

UNNAMED = "ring"
"""Run id of a plan that is made for its numbers alone."""


class HostEntry(Strict):
    """Where a site's host is."""

    port: PortNumber
    mac: Annotated[str, Field(pattern=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")]


class SiteEntry(Strict):
    """A site's switch. `bridge` is only for the commands that are shown."""

    dpid: Annotated[int, Field(ge=1, lt=2**64)]
    host: HostEntry
    ports: dict[str, PortNumber]
    bridge: str | None = None


class WiringFile(Strict):
    """The whole file."""

    sites: dict[str, SiteEntry]


@dataclass(frozen=True)
class Attachment:
    """A wiring, and by site the bridge that it is about where that is known."""

    wiring: Wiring
    bridges: Mapping[str, str] = field(default_factory=dict)

    def commands(self, wan: Wan, openflow_port: int) -> list[str]:
        """For each site one `ovs-vsctl` command that makes a bridge its switch. `<…>` stands for what is not known."""
        return [self._command(wan, site.name, openflow_port) for site in wan.sites]

    def _command(self, wan: Wan, site: str, openflow_port: int) -> str:
        bridge = self.bridges.get(site, f"<bridge of {site}>")
        wiring = self.wiring
        ports = [(f"<port to {peer}>", wiring.ports[site, peer]) for peer in wan.neighbors(site)]
        parts = [
            f"set bridge {bridge} other_config:datapath-id={wiring.dpids[site]:016x} protocols={PROTOCOL}"
            " fail_mode=secure other_config:disable-in-band=true",
            *(
                f"set interface {name} ofport_request={number}"
                for name, number in [("<port of the host>", wiring.hosts[site].port), *ports]
            ),
            f"set-controller {bridge} tcp:127.0.0.1:{openflow_port}",
            f"set controller {bridge} connection_mode=out-of-band max_backoff={RECONNECT_MS}",
        ]
        return "ovs-vsctl " + " \\\n  -- ".join(parts)


def wiring_of(plan: NetworkPlan) -> Wiring:
    """The wiring of an emulated network."""
    return Wiring(
        dpids={site.site: site.dpid for site in plan.sites.values()},
        ports={edge: port.number for edge, port in plan.ports.items()},
        hosts={site.site: HostPort(HOST_PORT, site.mac) for site in plan.sites.values()},
    )


def conventional(wan: Wan) -> Attachment:
    """The wiring that is taken where no file says otherwise; the testbed's own."""
    return Attachment(wiring_of(NetworkPlan(UNNAMED, wan)))


def load_wiring(path: Path, wan: Wan) -> Attachment:
    """The wiring of a file, checked against the WAN. InputError lists everything that is wrong in it."""
    loaded = load(path)
    file = validate(WiringFile, loaded)
    _check(loaded, file, wan)
    return Attachment(
        Wiring(
            dpids={name: site.dpid for name, site in file.sites.items()},
            ports={(name, peer): port for name, site in file.sites.items() for peer, port in site.ports.items()},
            hosts={name: HostPort(site.host.port, site.host.mac) for name, site in file.sites.items()},
        ),
        {name: site.bridge for name, site in file.sites.items() if site.bridge is not None},
    )


def _check(loaded: Loaded, file: WiringFile, wan: Wan) -> None:
    names = [site.name for site in wan.sites]
    faults = [
        Fault(("sites", n), "the WAN has no such site", n, did_you_mean(n, names))
        for n in file.sites.keys() - set(names)
    ]
    faults += [
        Fault(("sites",), f"the site {name!r} is missing", remedy="add it") for name in names if name not in file.sites
    ]
    by_dpid: dict[int, str] = {}
    for name in names:
        site = file.sites.get(name)
        if site is None:
            continue
        other = by_dpid.setdefault(site.dpid, name)
        if other != name:
            faults.append(Fault(("sites", name, "dpid"), f"{other} has this datapath id already", site.dpid))
        faults += _port_faults(name, site, {(name, peer) for peer in wan.neighbors(name)})
    if faults:
        raise loaded.error(faults)


def _port_faults(name: str, site: SiteEntry, edges: set[Edge]) -> list[Fault]:
    place = ("sites", name, "ports")
    given = {(name, peer) for peer in site.ports}
    peers = sorted(peer for _, peer in edges)
    faults = [
        Fault((*place, peer), "the WAN has no such link", peer, did_you_mean(peer, peers)) for _, peer in given - edges
    ]
    faults += [Fault(place, f"the port to {peer} is missing", remedy="add it") for _, peer in edges - given]
    numbers = [site.host.port, *site.ports.values()]
    if len(set(numbers)) < len(numbers):
        faults.append(Fault(place, "two things are on one port", numbers, "give each link and the host its own"))
    return faults
