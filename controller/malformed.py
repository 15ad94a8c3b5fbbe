"""Looks at an OpenFlow message before the framework parses it. Pure: bytes in, words out.

Both frameworks believe the lengths inside a message, and loop for ever on a zero (CVE-2024-34483 to 34489). So every
length that a parser would walk by is checked here first, and what a controller of ours never asks for is not parsed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum

VERSION = 4
"""OpenFlow 1.3."""

HELLO, MULTIPART_REPLY = 0, 19
PARSED = {HELLO, 1, 2, 3, 6, 12, MULTIPART_REPLY, 21}
"""Hello, error, both echoes, features reply, port status, multipart reply, barrier reply."""

LAST_TYPE = 29
"""OFPT_METER_MOD."""
LONGEST_HELLO_BYTES = 1024

FLOW, PORT_STATS, GROUP_DESCRIPTION, PORT_DESCRIPTION = 1, 4, 7, 13
HEADER_BYTES, MULTIPART_HEADER_BYTES = 8, 16
FIXED_ENTRY_BYTES = {PORT_STATS: 112, PORT_DESCRIPTION: 64}
FLOW_ENTRY_BYTES, GROUP_ENTRY_BYTES, BUCKET_BYTES, ACTION_BYTES, INSTRUCTION_BYTES = 48, 8, 16, 8, 8
ACTION_INSTRUCTIONS = (3, 4)
"""OFPIT_WRITE_ACTIONS, OFPIT_APPLY_ACTIONS."""
SET_FIELD = 25


class Verdict(Enum):
    """What to do with a message that is not malformed."""

    PARSE = "parse"
    IGNORE = "ignore"


class Malformed(Exception):
    """A message that no switch in its right mind sends."""


def length_to_wait_for(version: int, message_type: int, length: int) -> int:
    """How much of a message is to be there before it is examined, by its header: no more than that of garbage.

    Whoever speaks something else than OpenFlow is told by its first bytes, instead of being waited for.
    """
    if message_type == HELLO:
        return length if length <= LONGEST_HELLO_BYTES else HEADER_BYTES
    return length if version == VERSION and message_type <= LAST_TYPE else HEADER_BYTES


def examine(version: int, message_type: int, data: bytes) -> Verdict:
    """Of one whole message, header included. Malformed says what is wrong with it."""
    if message_type == HELLO:
        _check_hello(data)
        return Verdict.PARSE
    if version != VERSION:
        raise Malformed(f"message of OpenFlow version {version}")
    if message_type not in PARSED:
        return Verdict.IGNORE
    if message_type == MULTIPART_REPLY:
        _check_multipart(data)
    return Verdict.PARSE


def _check_hello(data: bytes) -> None:
    offset = HEADER_BYTES
    while offset < len(data):
        _, length = _unpack("!HH", data, offset, len(data), "hello element")
        if length < 4 or offset + length > len(data):
            raise Malformed(f"hello element of length {length}")
        offset += length


def _check_multipart(data: bytes) -> None:
    (kind,) = _unpack("!H", data, HEADER_BYTES, len(data), "multipart reply")
    start = MULTIPART_HEADER_BYTES
    if kind in FIXED_ENTRY_BYTES:
        if (len(data) - start) % FIXED_ENTRY_BYTES[kind]:
            raise Malformed(f"multipart reply of kind {kind} and length {len(data)}")
    elif kind == FLOW:
        for offset, end in _entries(data, start, len(data), FLOW_ENTRY_BYTES + 8, 0, "flow entry"):
            _check_flow(data, offset + FLOW_ENTRY_BYTES, end)
    elif kind == GROUP_DESCRIPTION:
        for offset, end in _entries(data, start, len(data), GROUP_ENTRY_BYTES, 0, "group entry"):
            for bucket, bucket_end in _entries(data, offset + GROUP_ENTRY_BYTES, end, BUCKET_BYTES, 0, "bucket"):
                _check_actions(data, bucket + BUCKET_BYTES, bucket_end)
    else:
        raise Malformed(f"multipart reply of kind {kind}, which was not asked for")


def _check_flow(data: bytes, offset: int, end: int) -> None:
    """A match, then instructions."""
    _, length = _unpack("!HH", data, offset, end, "match")
    padded = (length + 7) & ~7
    if length < 4 or offset + padded > end:
        raise Malformed(f"match of length {length}")
    _check_fields(data, offset + 4, offset + length)
    for start, stop in _entries(data, offset + padded, end, INSTRUCTION_BYTES, 2, "instruction"):
        (kind,) = _unpack("!H", data, start, stop, "instruction")
        if kind in ACTION_INSTRUCTIONS:
            _check_actions(data, start + INSTRUCTION_BYTES, stop)


def _check_actions(data: bytes, offset: int, end: int) -> None:
    for start, stop in _entries(data, offset, end, ACTION_BYTES, 2, "action"):
        (kind,) = _unpack("!H", data, start, stop, "action")
        if kind == SET_FIELD:
            (field_length,) = _unpack("!B", data, start + 7, stop, "set-field action")
            if start + 8 + field_length > stop:
                raise Malformed(f"field of length {field_length} in an action")


def _check_fields(data: bytes, offset: int, end: int) -> None:
    while offset < end:
        (length,) = _unpack("!B", data, offset + 3, end, "field of a match")
        offset += 4 + length
    if offset != end:
        raise Malformed("field of a match that is longer than the match")


def _entries(data: bytes, offset: int, end: int, least: int, length_at: int, what: str) -> Iterator[tuple[int, int]]:
    """Where each entry begins and ends; `length_at` is where in it its 16-bit length stands."""
    while offset < end:
        (length,) = _unpack("!H", data, offset + length_at, end, what)
        if length < least or length % 8 or offset + length > end:
            raise Malformed(f"{what} of length {length}")
        yield offset, offset + length
        offset += length


def _unpack(layout: str, data: bytes, offset: int, end: int, what: str) -> tuple[int, ...]:
    if offset + struct.calcsize(layout) > end:
        raise Malformed(f"{what} that is cut off")
    return struct.unpack_from(layout, data, offset)
