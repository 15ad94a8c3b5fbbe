"""What the controller process is told at its start: settings that a person picks, and the network it steers.

Plain values and their JSON; imports no OpenFlow framework, so that whoever starts the process can use it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from controller.calm import CalmSettings
from topologies.codec import wan_from_json, wan_to_json
from topologies.errors import InputError
from topologies.model import Edge, Wan

STACKS = ("ryu", "os_ken")
DEMANDS = ("measured", "announced")
CAPACITIES = ("feed", "measured")


def _require(good: bool, name: str, value: object, remedy: str) -> None:
    if not good:
        raise InputError(f"{name} is wrong", place="controller configuration", value=value, remedy=f"give {remedy}")


@dataclass(frozen=True)
class ControllerSettings:
    """What a person picks. `period_s` is T_wan: how often the policy looks when nothing has happened."""

    policy: str = "widest"
    period_s: float = 0.5
    tunnels: int = 4
    """Paths that are pre-installed for each ordered pair of DCs (k)."""
    margin: float = 0.1
    """A pair leaves a path that is up only for a gain above this fraction."""
    detours: bool | None = None
    """Whether switches turn to a detour by themselves when a link goes down; None: unless the policy is `shortest`."""
    watchdog_s: float = 1.0
    """The controller is started anew once its event loop has been stuck for so long."""
    dwell_s: float = 0.5
    """How long the policy must want a move that no bad news asks for (see `calm`)."""
    moves: int = 10
    """A pair may move so often at once, and once more every `move_every_s`."""
    move_every_s: float = 0.5
    demands: str = "measured"
    """Who sends: `measured` by the counters of ingress rules, or `announced` over the socket."""
    capacity: str = "feed"
    """What edges can carry: told over the socket by a `feed`, or `measured` by the counters of ports."""
    stack: str = "ryu"
    listen_port: int = 0
    """OpenFlow port on 127.0.0.1; 0 lets the kernel pick one, which `status` and `wait_ready` tell."""
    http_port: int | None = None
    """Port on 127.0.0.1 for reading over HTTP; 0 lets the kernel pick one, which `status` tells; None: no HTTP."""

    def __post_init__(self) -> None:
        _require(self.stack in STACKS, "stack", self.stack, f"one of {', '.join(STACKS)}")
        _require(0.01 <= self.period_s <= 86400, "period_s", self.period_s, "from 0.01 to 86400 seconds")
        _require(1 <= self.tunnels <= 32, "tunnels", self.tunnels, "from 1 to 32 paths a pair")
        _require(self.detours in (None, True, False), "detours", self.detours, "true, false, or nothing")
        _require(0.2 <= self.watchdog_s <= 3600, "watchdog_s", self.watchdog_s, "from 0.2 to 3600 seconds")
        _require(0 <= self.margin <= 100 and math.isfinite(self.margin), "margin", self.margin, "a fraction, as 0.1")
        _require(self.demands in DEMANDS, "demands", self.demands, f"one of {', '.join(DEMANDS)}")
        _require(self.capacity in CAPACITIES, "capacity", self.capacity, f"one of {', '.join(CAPACITIES)}")
        self.calm  # noqa: B018 (says what is out of range)
        _require(0 <= self.listen_port <= 65535, "listen_port", self.listen_port, "0 or a TCP port")
        if self.http_port is not None:
            _require(0 <= self.http_port <= 65535, "http_port", self.http_port, "0, a TCP port, or nothing")

    @property
    def calm(self) -> CalmSettings:
        """When pairs may move."""
        return CalmSettings(self.dwell_s, self.moves, self.move_every_s)

    def detours_with(self, policy: str) -> bool:
        """Whether there are detours under a policy.

        A detour is a path change made by a switch: `shortest` is there to show a network whose paths never change.
        """
        return policy != "shortest" if self.detours is None else self.detours


@dataclass(frozen=True)
class HostPort:
    """Where a site's host hangs on its switch: OpenFlow port number and the host's real MAC address."""

    port: int
    mac: str


@dataclass(frozen=True)
class Wiring:
    """How sites map to OpenFlow: datapath ids, the port at a site towards each neighbor, the port of its host."""

    dpids: Mapping[str, int]
    ports: Mapping[Edge, int]
    hosts: Mapping[str, HostPort]

    @cached_property
    def site_numbers(self) -> Mapping[str, int]:
        """Sites counted from 0, by name."""
        return {site: number for number, site in enumerate(sorted(self.dpids))}

    @cached_property
    def degrees(self) -> Mapping[str, int]:
        """How many neighbors each site has."""
        return Counter(site for site, _ in self.ports)

    @cached_property
    def neighbor_numbers(self) -> Mapping[Edge, int]:
        """The neighbors of each site counted from 0, by name."""
        counts: Counter[str] = Counter()
        numbers = {}
        for site, neighbor in sorted(self.ports):
            numbers[site, neighbor] = counts[site]
            counts[site] += 1
        return numbers


@dataclass(frozen=True)
class ControllerConfig:
    """Everything the process needs; written as the file that `python -m controller --config FILE` reads."""

    wan: Wan
    wiring: Wiring
    socket: Path
    settings: ControllerSettings = ControllerSettings()

    def __post_init__(self) -> None:
        names = {site.name for site in self.wan.sites}
        _require(set(self.wiring.dpids) == names, "dpids", sorted(self.wiring.dpids), "one datapath id for each site")
        dpids = list(self.wiring.dpids.values())
        _require(len(set(dpids)) == len(dpids), "dpids", dpids, "a different datapath id for each site")
        _require(set(self.wiring.ports) == set(self.wan.edges), "ports", sorted(self.wiring.ports), "a port an edge")
        _require(set(self.wiring.hosts) == names, "hosts", sorted(self.wiring.hosts), "one host for each site")


def config_to_json(config: ControllerConfig) -> dict[str, Any]:
    """Plain values: the settings by name, `wan`, `socket`, `dpids`, `ports` and `hosts`."""
    wiring = config.wiring
    return {
        **asdict(config.settings),
        "wan": wan_to_json(config.wan),
        "socket": str(config.socket),
        "dpids": dict(wiring.dpids),
        "ports": [[site, neighbor, port] for (site, neighbor), port in wiring.ports.items()],
        "hosts": [[site, host.port, host.mac] for site, host in wiring.hosts.items()],
    }


def config_from_json(plain: dict[str, Any]) -> ControllerConfig:
    """The configuration that `config_to_json` wrote. InputError names what is missing, unknown or wrong."""
    settings_names = {field.name for field in fields(ControllerSettings)}
    network_names = {"wan", "socket", "dpids", "ports", "hosts"}
    for name in plain.keys() - settings_names - network_names:
        raise InputError("unknown key", place="controller configuration", value=name, remedy="remove it")
    for name in network_names - plain.keys():
        raise InputError("a key is missing", place="controller configuration", value=name, remedy="add it")
    try:
        wiring = Wiring(
            dpids={site: int(dpid) for site, dpid in plain["dpids"].items()},
            ports={(site, neighbor): int(port) for site, neighbor, port in plain["ports"]},
            hosts={site: HostPort(int(port), str(mac)) for site, port, mac in plain["hosts"]},
        )
        settings = ControllerSettings(**{name: plain[name] for name in settings_names & plain.keys()})
        return ControllerConfig(wan_from_json(plain["wan"]), wiring, Path(plain["socket"]), settings)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"a value has the wrong form: {error}", place="controller configuration") from error


def save_config(config: ControllerConfig, file: Path) -> None:
    """Write the file for `--config`, readable by its owner only."""
    file.touch(mode=0o600)
    file.write_text(json.dumps(config_to_json(config), indent=1) + "\n")


def load_config(file: Path) -> ControllerConfig:
    """Read what `save_config` wrote. InputError for a file that is missing, not JSON, or not a configuration."""
    try:
        plain = json.loads(file.read_text())
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", file=str(file)) from error
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file=str(file)) from error
    if not isinstance(plain, dict):
        raise InputError("not a JSON object", file=str(file))
    return config_from_json(plain)
