"""What an emulated WAN is made of, before anything is made: names, numbers and addresses of one run. Pure.

Every kernel object carries the run id in its name (`rk3f9s1-e2` is port 2 on the switch of site 1 of run `k3f9`);
names of sites never reach the kernel, so they may be anything.
"""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from topologies import Edge, Link, RingroadError, Wan

MTU_BYTES = 9000
"""Jumbo frames everywhere: through OVS in user space they are what lets two cores carry the WANs of this project."""

HOST_PORT = 1
"""OpenFlow port of a switch that leads to its own host; WAN ports follow."""

MAX_SITES = 999
RUN_ID = re.compile(r"[a-z][a-z0-9]{3}")
PREFIX_LENGTH = 16
"""All hosts are in 10.77.0.0/16: one link-layer network, as far as they can tell."""

OWNER_LABEL = "ringroad"
"""Key of the OVS `external_ids` that hold the run id."""


@dataclass(frozen=True)
class SitePlan:
    """One site: an OVS bridge and a host in a network namespace of its own. `number` counts from 1."""

    site: str
    number: int
    switch: str
    host: str

    @property
    def dpid(self) -> int:
        """The switch's OpenFlow datapath id."""
        return self.number

    @property
    def host_port(self) -> str:
        """The interface on the switch's side of the access to the host; never shaped."""
        return f"{self.switch}-e{HOST_PORT}"

    @property
    def ip(self) -> str:
        """The host's address."""
        return f"10.77.{self.number >> 8}.{self.number & 255}"

    @property
    def mac(self) -> str:
        """The host's link-layer address."""
        return f"02:00:00:00:{self.number >> 8:02x}:{self.number & 255:02x}"


@dataclass(frozen=True)
class PortPlan:
    """Where a directed edge leaves its site: what the edge does to packets is done at this port's egress."""

    edge: Edge
    switch: str
    number: int

    @property
    def interface(self) -> str:
        """Its name in the kernel."""
        return f"{self.switch}-e{self.number}"


@dataclass(frozen=True)
class NetworkPlan:
    """The whole network of one run."""

    run_id: str
    wan: Wan

    def __post_init__(self) -> None:
        if not RUN_ID.fullmatch(self.run_id):
            raise ValueError(f"{self.run_id!r} is no run id")
        if len(self.wan.sites) > MAX_SITES:
            raise RingroadError(f"{len(self.wan.sites)} sites do not fit", f"use a WAN of at most {MAX_SITES} sites")

    @property
    def prefix(self) -> str:
        """What the names of all kernel objects of this run begin with."""
        return name_prefix(self.run_id)

    @cached_property
    def sites(self) -> dict[str, SitePlan]:
        """By name of the site, in the order of the WAN."""
        return {
            site.name: SitePlan(site.name, number, f"{self.prefix}s{number}", f"{self.prefix}h{number}")
            for number, site in enumerate(self.wan.sites, start=1)
        }

    @cached_property
    def ports(self) -> dict[Edge, PortPlan]:
        """The port at which each directed edge starts."""
        taken = dict.fromkeys(self.sites, HOST_PORT)
        ports = {}
        for edge in self.wan.edges:
            taken[edge[0]] += 1
            ports[edge] = PortPlan(edge, self.sites[edge[0]].switch, taken[edge[0]])
        return ports

    def link_ports(self, link: Link) -> tuple[PortPlan, PortPlan]:
        """Both ends of a link, forward direction first."""
        forward, backward = link.edges
        return self.ports[forward], self.ports[backward]


def name_prefix(run_id: str) -> str:
    """What the names of all kernel objects of a run begin with."""
    return f"r{run_id}"


def is_name_of(name: str, run_id: str) -> bool:
    """Whether a kernel object's name is exactly of the shape that a run gives to its bridges and interfaces."""
    return re.fullmatch(rf"{name_prefix(run_id)}[sh]\d{{1,3}}(-e\d{{1,4}})?", name) is not None


def new_run_id(taken: Collection[str]) -> str:
    """Four characters, the first a letter, not among `taken`."""
    while True:
        letters = string.ascii_lowercase + string.digits
        run_id = secrets.choice(string.ascii_lowercase) + "".join(secrets.choice(letters) for _ in range(3))
        if run_id not in taken:
            return run_id
