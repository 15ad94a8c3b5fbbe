"""Whether anything gets through a link: BFD (RFC 5880) between its two ends, run by Open vSwitch itself.

A switch whose session is down takes its port for dead: its fast-failover groups turn to their next bucket, and the
controller hears of it by PortStatus. Pure: commands out, nothing run. It knows nothing of queues.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from topologies import InputError

DESTINATION_MAC = bytes.fromhex("002320000001")
"""What Open vSwitch sends its BFD packets to, unless told otherwise."""


@dataclass(frozen=True)
class BfdSettings:
    """A packet every `interval_s`, each way on every link; a link is dead once `misses` in a row have not come.

    Open vSwitch sends a little more often than told (RFC 5880, 6.8.7): the time to see is interval × misses at most.
    """

    interval_s: float = 0.08
    misses: int = 4

    def __post_init__(self) -> None:
        if not 0.01 <= self.interval_s <= 10:
            raise InputError("interval of BFD is out of range", value=self.interval_s, remedy="give 10ms to 10s")
        if not 1 <= self.misses <= 255:
            raise InputError("misses of BFD are out of range", value=self.misses, remedy="give 1 to 255")

    @property
    def seen_within_s(self) -> float:
        """After how long a link that lets nothing through is found to be so."""
        return self.interval_s * self.misses


def start_commands(interfaces: Iterable[str], settings: BfdSettings) -> list[list[str]]:
    """One transaction that starts a session at each of these ports."""
    interval_ms = round(settings.interval_s * 1000)
    options = {"enable": "true", "min_tx": interval_ms, "min_rx": interval_ms, "mult": settings.misses}
    values = [f"bfd:{name}={value}" for name, value in options.items()]
    return [["set", "Interface", interface, *values] for interface in interfaces]


def wait_commands(interfaces: Iterable[str]) -> list[list[str]]:
    """One command that returns once the session of each of these ports is up."""
    return [["wait-until", "Interface", interface, "bfd_status:state=up"] for interface in interfaces]
