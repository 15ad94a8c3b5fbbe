"""How long a round trip takes on the connections that this process has, as its kernel has seen it. Sends nothing."""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress

_TCP_INFO_BYTES = 232
_MIN_RTT = 148
"""Offset of tcpi_min_rtt (µs) in struct tcp_info of linux/tcp.h, which only grows at its end."""
_UNKNOWN = 2**32 - 1


def longest_round_trip_s() -> float:
    """The longest among the least round-trip times of all TCP connections; 0 if none is known."""
    longest_us = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (a list, closed before it is gone through)
        with suppress(OSError):
            descriptor = int(name)
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                longest_us = max(longest_us, _least_us(descriptor))
    return longest_us / 1e6


def _least_us(descriptor: int) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.type != socket.SOCK_STREAM or connection.family not in (socket.AF_INET, socket.AF_INET6):
            return 0
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    if len(info) < _MIN_RTT + 4:
        return 0
    (least_us,) = struct.unpack_from("=I", info, _MIN_RTT)
    return 0 if least_us == _UNKNOWN else least_us
