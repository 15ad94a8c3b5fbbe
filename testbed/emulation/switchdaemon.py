"""ovs-vswitchd made ready for a testbed and given back as it was: room in its packet sockets, and precedence.

Only where it forwards itself, in user space. It belongs to the host, and to nobody's run.
"""

from __future__ import annotations

from collections.abc import Collection

from testbed.emulation import openvswitch, packetsockets, precedence
from testbed.emulation.plan import HOST_PORT


def make_ready(pid: int, switch: str, indexes: Collection[int]) -> list[str]:
    """Needs one of the switches, and the indexes of all interfaces of switches; what could not be done, in words."""
    notes = []
    openvswitch.send_one_packet(switch, HOST_PORT)
    if not packetsockets.make_room(pid, indexes):
        notes.append("Open vSwitch's sending socket was not found: links will lose packets when others are congested")
    if refused := precedence.put_first(pid, precedence.FORWARDING, precedence.BESIDE_FORWARDING):
        notes.append(f"Open vSwitch has to wait for its turn among the workers: {refused}")
    return notes


def restore(pid: int) -> None:
    """Undo `make_ready`, whoever did it."""
    packetsockets.restore(pid)
    precedence.restore(pid)
