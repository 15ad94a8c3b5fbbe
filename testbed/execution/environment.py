"""What a process of a person's program finds in its environment: what torchrun would set, and where our sockets are.

Pure. The names are those of torch.distributed.run, "Environment Variables"; a DC is what torchrun calls a node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FIRST_PORT = 29500
"""torchrun's. Each DC has ports of its own, so nothing else can hold it."""

INTERFACE = "eth0"

RUN_ID = "TORCHELASTIC_RUN_ID"
"""The variable that names the run of the program; what a process starts inherits it."""


@dataclass(frozen=True)
class Place:
    """Process `rank` of all, the `local_rank`-th in its DC; `group_rank` is the DC's number."""

    rank: int
    dc: str
    local_rank: int
    group_rank: int

    @property
    def name(self) -> str:
        """`rank 2 (tokyo)`: how messages for people name it."""
        return f"rank {self.rank} ({self.dc})"

    @property
    def prefix(self) -> str:
        """What each line of its output begins with on the terminal."""
        return f"[{self.rank} {self.dc}] "


def places(dcs: tuple[str, ...], per_dc: int) -> list[Place]:
    """`per_dc` processes in each DC, numbered as torchrun does: those of one DC follow each other."""
    return [Place(group * per_dc + local, dc, local, group) for group, dc in enumerate(dcs) for local in range(per_dc)]


def torchrun_environment(place: Place, dcs: int, per_dc: int, master_ip: str, port: int, job: str) -> dict[str, str]:
    """What torchrun sets. The script's own rank 0 keeps the store, at `master_ip` and `port`."""
    ranks = str(dcs * per_dc)
    return {
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local_rank),
        "GROUP_RANK": str(place.group_rank),
        "ROLE_RANK": str(place.rank),
        "ROLE_NAME": "default",
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": str(per_dc),
        "GROUP_WORLD_SIZE": str(dcs),
        "ROLE_WORLD_SIZE": ranks,
        "MASTER_ADDR": master_ip,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        RUN_ID: job,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "TP_SOCKET_IFNAME": INTERFACE,
    }


def whole_environment(
    base: Mapping[str, str], torchrun: Mapping[str, str], agent: str, gloo: str, programs: Path, paths: list[Path]
) -> dict[str, str]:
    """`base`, which is the person's own, with all that is ours.

    `agent` and `gloo` are for the `ring` backend. `programs` comes first in PATH, so that `python` is the one that has
    torch; `paths` come last in PYTHONPATH, so that what the person has goes before. Python writes its lines at once,
    and a process computes in one thread, unless the person says otherwise.
    """
    found = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"} | dict(base)
    searched = [path for path in found.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {
        **found,
        **torchrun,
        "PATH": os.pathsep.join([str(programs), found.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join([*searched, *map(str, paths)]),
        "RINGROAD_AGENT": agent,
        "RINGROAD_GLOO": gloo,
    }
