"""Room in the packet sockets through which Open vSwitch, in user space, receives and sends; and what they dropped.

ovs-vswitchd sends the packets of *all* its ports through one socket. Every packet that waits in any shaped queue counts
against its send buffer (net.core.wmem_default, 208 KiB): after two dozen jumbo frames on the whole WAN each link loses
packets because others are congested. Its receive sockets, one a port, are as small. Both get room here, on a
duplicate of the daemon's own descriptor (pidfd_getfd(2)), so that no sysctl of the host changes.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SYS_PIDFD_GETFD = 438
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_MEMINFO = 32, 33, 55
MEMINFO_DROPS = 8
RECEIVE_BUFFER_BYTES = 16 * 2**20
SEND_BUFFER_BYTES = 2**29
DEFAULT_SEND_BUFFER = Path("/proc/sys/net/core/wmem_default")
PACKET_TABLE = Path("/proc/net/packet")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class PacketSocket:
    """One packet socket of a process. `index` is the interface it receives from; 0 is the one that only sends."""

    descriptor: int
    index: int
    protocol: int

    @property
    def is_sender(self) -> bool:
        """Whether it is bound to no interface and hears no protocol: what a process only sends through."""
        return self.index == 0 and self.protocol == 0


def packet_sockets(pid: int) -> list[PacketSocket]:
    """All packet sockets that process `pid` holds in this network namespace; none if it has died."""
    by_inode = {}
    for line in PACKET_TABLE.read_text().splitlines()[1:]:
        _, _, _, protocol, index, *_, inode = line.split()
        by_inode[f"socket:[{inode}]"] = (int(index), int(protocol, 16))
    found: list[PacketSocket] = []
    folder = Path(f"/proc/{pid}/fd")
    for link in folder.iterdir() if folder.exists() else ():
        with suppress(FileNotFoundError):
            target = str(link.readlink())
            if target in by_inode:
                found.append(PacketSocket(int(link.name), *by_inode[target]))
    return found


def make_room(pid: int, indexes: Collection[int]) -> bool:
    """Let the sending socket of `pid` hold what all queues may hold, and those that receive from `indexes` a burst.

    False if there is no sending socket: the daemon opens it with the first packet that it sends.
    """
    widened = False
    for found in packet_sockets(pid):
        with _duplicate(pid, found.descriptor) as ours:
            if found.index in indexes:
                ours.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
            elif found.is_sender:
                ours.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
                widened = True
    return widened


def restore(pid: int) -> None:
    """Give the sending socket the size it was born with; receiving ones end with their ports."""
    # The kernel doubles what it is told, for its own book-keeping.
    size = int(DEFAULT_SEND_BUFFER.read_text()) // 2
    for found in packet_sockets(pid):
        if found.is_sender:
            with suppress(OSError), _duplicate(pid, found.descriptor) as ours:
                ours.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, size)


def receive_drops(pid: int, indexes: Collection[int]) -> dict[int, int]:
    """Packets that were lost on their way into `pid`, by interface: the switch was too slow to fetch them."""
    drops = dict.fromkeys(indexes, 0)
    for found in packet_sockets(pid):
        if found.index in drops:
            with suppress(OSError), _duplicate(pid, found.descriptor) as ours:
                memory = ours.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)
                drops[found.index] += struct.unpack("=9I", memory)[MEMINFO_DROPS]
    return drops


@contextmanager
def _duplicate(pid: int, descriptor: int) -> Iterator[socket.socket]:
    process = os.pidfd_open(pid)
    try:
        ours = _libc.syscall(SYS_PIDFD_GETFD, process, descriptor, 0)
        if ours < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(process)
    with socket.socket(fileno=ours) as duplicate:
        yield duplicate
