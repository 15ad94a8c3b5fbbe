"""Which way packets of one flow go: a tap on each of several interfaces, with the kernel's own time for every packet.

A filter in the kernel keeps all other traffic away, so that looking costs next to nothing.
"""

from __future__ import annotations

import ctypes
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

ETH_P_ALL, ETH_P_IP = 3, 0x0800
SO_ATTACH_FILTER, SO_TIMESTAMPNS = 26, 35
LOAD_HALF, LOAD_BYTE, JUMP_IF_EQUAL, RETURN = 0x28, 0x30, 0x15, 0x06
"""Classic BPF: linux/bpf_common.h."""
TIMESTAMP = struct.Struct("=qq")
SNAP_BYTES = 64

Key = TypeVar("Key")


@dataclass(frozen=True)
class Seen(Generic[Key]):
    """A packet on the interface of `key` at a second of CLOCK_MONOTONIC."""

    key: Key
    at: float


class Taps(Generic[Key]):
    """Listens on interfaces of this namespace for UDP packets to one port, in a thread, while the context lasts."""

    def __init__(self, interface_names: Mapping[Key, str], udp_port: int) -> None:
        self._sockets = {_tap(name, udp_port): key for key, name in interface_names.items()}
        self._wake, self._woken = socket.socketpair()
        self._changed = threading.Condition()
        self._seen: list[Seen[Key]] = []
        self._thread = threading.Thread(target=self._listen, name="taps", daemon=True)

    def __enter__(self) -> Taps[Key]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wake.close()
        self._thread.join()
        for each in (*self._sockets, self._woken):
            each.close()

    def first_elsewhere(self, key: Key, since: float, timeout_s: float) -> Seen[Key] | None:
        """The first packet after `since` on any interface but that of `key`; None if none comes."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                found = [seen for seen in self._seen if seen.at > since and seen.key != key]
                if found:
                    return min(found, key=lambda seen: seen.at)
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    return None

    def forget(self) -> None:
        """Drop what was seen until now."""
        with self._changed:
            self._seen.clear()

    def _listen(self) -> None:
        poll = select.poll()
        by_descriptor = {each.fileno(): each for each in self._sockets}
        for descriptor in (*by_descriptor, self._woken.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor not in by_descriptor:
                    return
                tap = by_descriptor[descriptor]
                _, ancillary, _, _ = tap.recvmsg(SNAP_BYTES, 64)
                seconds, nanoseconds = TIMESTAMP.unpack(ancillary[0][2])
                # The kernel stamps with wall-clock time; the age is free of the wall clock's offset.
                age_s = time.time() - (seconds + nanoseconds / 1e9)
                with self._changed:
                    self._seen.append(Seen(self._sockets[tap], time.monotonic() - age_s))
                    self._changed.notify_all()


def _tap(interface: str, udp_port: int) -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    program = [
        (LOAD_HALF, 0, 0, 12),
        (JUMP_IF_EQUAL, 0, 5, ETH_P_IP),
        (LOAD_BYTE, 0, 0, 23),
        (JUMP_IF_EQUAL, 0, 3, socket.IPPROTO_UDP),
        (LOAD_HALF, 0, 0, 36),
        (JUMP_IF_EQUAL, 0, 1, udp_port),
        (RETURN, 0, 0, SNAP_BYTES),
        (RETURN, 0, 0, 0),
    ]
    filled = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(filled)))
    tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    tap.bind((interface, ETH_P_ALL))
    return tap
