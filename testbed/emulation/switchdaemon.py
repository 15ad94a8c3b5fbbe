"""ovs-vswitchd made ready for a testbed and given back as it was: room in its packet sockets, and precedence.

Only where it forwards itself, in user space. It belongs to the host, and to nobody's run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from testbed.emulation import openvswitch, packetsockets, precedence
from testbed.emulation.plan import HOST_PORT

REVALIDATOR = "revalidator"
"""How the names begin of those threads that take cached flows out that no longer do what the tables say."""


def make_ready(pid: int, switch: str, indexes: Collection[int]) -> list[str]:
    """Needs one of the switches, and the indexes of all interfaces of switches; what could not be done, in words."""
    notes = []
    openvswitch.send_one_packet(switch, HOST_PORT)
    if not packetsockets.make_room(pid, indexes):
        notes.append("Open vSwitch's sending socket was not found: links will lose packets when others are congested")
    if refused := precedence.put_first(pid, precedence.FORWARDING, precedence.BESIDE_FORWARDING):
        notes.append(f"Open vSwitch has to wait for its turn among the workers: {refused}")
    return notes


def settle(pid: int, hosts: Iterable[int]) -> None:
    """Once every port is there and BFD runs: precedence for the threads that came since `make_ready`, and turns.

    At news of a link ovs-vswitchd goes over its cached flows twice: because interfaces changed, and, some steps of its
    main loop later, because the port is down. Between two such rounds it waits 5 ms. A revalidator that runs while the
    main loop sleeps sees both at once, and fast-failover groups turn 4 ms sooner.

    `hosts`, each the process that all others in that DC follow, leave the main loop a processor of its own.
    """
    if not precedence.put_first(pid, precedence.FORWARDING, precedence.BESIDE_FORWARDING):
        precedence.share_processor(pid, REVALIDATOR)
        for host in hosts:
            precedence.keep_off(host, pid)


def restore(pid: int) -> None:
    """Undo `make_ready` and `settle`, whoever did it."""
    packetsockets.restore(pid)
    precedence.restore(pid)
