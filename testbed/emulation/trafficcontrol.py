"""Queueing disciplines in the kernel: set, changed in place, read; one round trip each, on a netlink socket of our own.

pyroute2 knows no 64-bit rates and no exact bursts, and would need a second round trip to read back what a change left
behind. Here every request asks the kernel to echo the result. See rtnetlink(7) and linux/rtnetlink.h.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.emulation.qdisc import attribute, attributes
from topologies import RingroadError

NEW_QDISC, DELETE_QDISC, GET_QDISC = 36, 37, 38
NEW_FILTER, DELETE_FILTER = 44, 45
REQUEST, ACK, ECHO, DUMP, EXCLUSIVE, CREATE = 0x1, 0x4, 0x8, 0x300, 0x200, 0x400
ERROR, DONE = 2, 3

KIND, OPTIONS, STATS2 = 1, 2, 7
STATS_BASIC, STATS_QUEUE = 1, 3

ROOT = 0xFFFFFFFF
BUCKET_HANDLE, BUCKET_CLASS, IMPAIRMENT_HANDLE = 0x10000, 0x10001, 0x20000
CLSACT_PARENT, CLSACT_HANDLE, CLSACT_EGRESS = 0xFFFFFFF1, 0xFFFF0000, 0xFFFFFFF3
ALL_PROTOCOLS, FIRST_PRIORITY, SECOND_PRIORITY = 3, 1, 2

BPF_ACTIONS, BPF_OPS_LEN, BPF_OPS, BPF_NAME, BPF_FLAGS = 1, 4, 5, 7, 8
BPF_DIRECT_ACTION = 1
ACTION_KIND, ACTION_OPTIONS, MIRRED_PARAMETERS = 1, 2, 2
INGRESS_REDIRECT, STOLEN = 3, 4
SWALLOW = struct.pack("=HBBI", 0x06, 0, 0, 4)
"""One instruction of classic BPF: return TC_ACT_STOLEN. The packet is gone and its sender is told that all is well."""

_INSTRUCTION = struct.Struct("=HBBI")
_MIRRED = struct.Struct("=IIiiiiI")
_HEADER = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=BxxxiIII")


class TrafficControlError(RingroadError):
    """The kernel refused a queueing discipline."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(f"{message}: {os.strerror(code)}")
        self.code = code


@dataclass(frozen=True)
class Qdisc:
    """A queueing discipline as the kernel tells it; counters since it was made."""

    index: int
    handle: int
    parent: int
    kind: str
    options: bytes
    sent_bytes: int
    backlog_bytes: int
    drops: int


class TrafficControl:
    """One netlink socket in the network namespace where it was made. Not thread-safe."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._numbers = itertools.count(1)

    def add(self, index: int, parent: int, handle: int, kind: str, options: bytes) -> Qdisc:
        """A new discipline where the kernel's default or none was; what it is now."""
        flags = REQUEST | ACK | ECHO | CREATE | EXCLUSIVE
        return self._one(self._request(NEW_QDISC, flags, index, handle, parent, kind=kind, options=options), handle)

    def change(self, index: int, parent: int, handle: int, kind: str, options: bytes) -> Qdisc:
        """Other settings for one that is there, in place, its packets kept; what it is now."""
        flags = REQUEST | ACK | ECHO
        return self._one(self._request(NEW_QDISC, flags, index, handle, parent, kind=kind, options=options), handle)

    def remove(self, index: int, parent: int, handle: int) -> None:
        """Delete one, with the packets in it. TrafficControlError if it is not there."""
        self._request(DELETE_QDISC, REQUEST | ACK, index, handle, parent)

    def all(self) -> list[Qdisc]:
        """Every discipline in this namespace."""
        return self._request(GET_QDISC, REQUEST | DUMP, 0, 0, 0)

    def swallow(self, index: int) -> None:
        """From now on nothing leaves this interface. Its root discipline and its carrier are not touched."""
        options = _program(SWALLOW) + attribute(BPF_FLAGS, struct.pack("=I", BPF_DIRECT_ACTION))
        self._add_filter(index, FIRST_PRIORITY, options)

    def pass_again(self, index: int) -> None:
        """Undo `swallow`; nothing happens where it is not in force."""
        try:
            self._request(DELETE_FILTER, REQUEST | ACK, index, 0, CLSACT_EGRESS, info=_info(FIRST_PRIORITY))
        except TrafficControlError as error:
            if error.code not in (errno.ENOENT, errno.EINVAL):
                raise

    def expedite(self, index: int, peer_index: int, destination_mac: bytes) -> None:
        """From now on packets to that address do not queue on this interface: they come in by its peer at once.

        Nothing that `swallow` holds up gets past it this way.
        """
        mirred = _MIRRED.pack(0, 0, STOLEN, 0, 0, INGRESS_REDIRECT, peer_index)
        action = attribute(ACTION_KIND, b"mirred\0") + attribute(ACTION_OPTIONS, attribute(MIRRED_PARAMETERS, mirred))
        options = _program(_to_address(destination_mac)) + attribute(BPF_ACTIONS, attribute(1, action))
        self._add_filter(index, SECOND_PRIORITY, options)

    def _add_filter(self, index: int, priority: int, options: bytes) -> None:
        flags = REQUEST | ACK | CREATE | EXCLUSIVE
        try:
            self._request(NEW_QDISC, flags, index, CLSACT_HANDLE, CLSACT_PARENT, kind="clsact", options=b"")
        except TrafficControlError as error:
            if error.code != errno.EEXIST:
                raise
        self._request(NEW_FILTER, flags, index, 0, CLSACT_EGRESS, info=_info(priority), kind="bpf", options=options)

    def close(self) -> None:
        """Close the socket; what was set stays."""
        self._socket.close()

    def __enter__(self) -> TrafficControl:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _one(self, answers: list[Qdisc], handle: int) -> Qdisc:
        for qdisc in answers:
            if qdisc.handle == handle:
                return qdisc
        raise TrafficControlError("the kernel did not tell what it holds", errno.EPROTO)

    def _request(
        self, kind_of_request: int, flags: int, index: int, handle: int, parent: int, *, info: int = 0, kind: str = "",
        options: bytes | None = None,
    ) -> list[Qdisc]:  # fmt: skip
        number = next(self._numbers)
        body = _TCMSG.pack(0, index, handle, parent, info)
        if kind:
            body += attribute(KIND, kind.encode() + b"\0")
        if options is not None:
            body += attribute(OPTIONS, options)
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind_of_request, flags, number, 0) + body)
        what = f"{kind or 'queueing discipline'} on interface {index}"
        return list(self._answers(number, what))

    def _answers(self, number: int, what: str) -> Iterator[Qdisc]:
        while True:
            data = self._socket.recv(1 << 20)
            while len(data) >= _HEADER.size:
                length, kind, _, sequence, _ = _HEADER.unpack_from(data)
                body, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
                if sequence != number:
                    continue
                if kind == NEW_QDISC:
                    yield _decode(body)
                elif kind == DONE:
                    return
                elif kind == ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    if code:
                        raise TrafficControlError(f"the kernel refused {what}", code)
                    return


def _info(priority: int) -> int:
    return priority << 16 | socket.htons(ALL_PROTOCOLS)


def _program(instructions: bytes) -> bytes:
    count = struct.pack("=H", len(instructions) // _INSTRUCTION.size)
    return attribute(BPF_OPS_LEN, count) + attribute(BPF_OPS, instructions)


def _to_address(mac: bytes) -> bytes:
    """Classic BPF that matches an Ethernet destination: two loads, two comparisons, -1 (a match) or 0."""
    high, low = struct.unpack("!IH", mac)
    load_word, load_half, jump_if_equal, give = 0x20, 0x28, 0x15, 0x06
    return b"".join(
        _INSTRUCTION.pack(*instruction)
        for instruction in (
            (load_word, 0, 0, 0),
            (jump_if_equal, 0, 3, high),
            (load_half, 0, 0, 4),
            (jump_if_equal, 0, 1, low),
            (give, 0, 0, 0xFFFFFFFF),
            (give, 0, 0, 0),
        )
    )


def _decode(body: bytes) -> Qdisc:
    _, index, handle, parent, _ = _TCMSG.unpack_from(body)
    found = dict(attributes(body[_TCMSG.size :]))
    stats = dict(attributes(found.get(STATS2, b"")))
    sent = struct.unpack_from("=Q", stats[STATS_BASIC])[0] if STATS_BASIC in stats else 0
    _, backlog, drops = struct.unpack_from("=III", stats[STATS_QUEUE]) if STATS_QUEUE in stats else (0, 0, 0)
    kind = found[KIND].rstrip(b"\0").decode()
    return Qdisc(index, handle, parent, kind, found.get(OPTIONS, b""), sent, backlog, drops)
