from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from fakeswitch import (
    FEATURES_REPLY,
    FLOW,
    GROUP_DESCRIPTION,
    HELLO,
    PORT_DESCRIPTION,
    message,
    multipart,
    port,
)
from hypothesis import given
from hypothesis import strategies as st

from controller.malformed import Malformed, Verdict, examine

PACKET_IN, QUEUE_REPLY, TABLE_FEATURES = 10, 23, 12


def _match(fields: bytes = b"") -> bytes:
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


def _flow(match: bytes, instructions: bytes = b"", length: int | None = None) -> bytes:
    actual = 48 + len(match) + len(instructions)
    fixed = struct.pack("!HBxIIHHHHxxxxQQQ", actual if length is None else length, 0, 1, 0, 200, 0, 0, 0, 7, 1, 100)
    return fixed + match + instructions


def _group(buckets: bytes, length: int | None = None) -> bytes:
    return struct.pack("!HBxI", 8 + len(buckets) if length is None else length, 3, 0x5201_0000) + buckets


def _bucket(actions: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("!HHIIxxxx", 16 + len(actions) if length is None else length, 0, 1, 0xFFFFFFFF) + actions


OUTPUT = struct.pack("!HHIHxxxxxx", 0, 16, 1, 0)
ETH_DST = b"\x80\x00\x06\x06" + bytes(6)
SET_ETH_DST = struct.pack("!HH", 25, 16) + ETH_DST + bytes(2)
APPLY = struct.pack("!HHxxxx", 4, 8 + 32) + SET_ETH_DST + OUTPUT

ENDLESS_ACTION = struct.pack("!HH", 25, 0) + ETH_DST + bytes(2)
ENDLESS_INSTRUCTION = struct.pack("!HHxxxx", 4, 0)
ENDLESS_PROPERTY = struct.pack("!HHxxxxHxxxxxx", 1, 0, 10)

LOOPS = {
    "CVE-2024-34483, a bucket of length 0": multipart(GROUP_DESCRIPTION, _group(_bucket(length=0))),
    "CVE-2024-34484, an action of length 0 in a bucket": multipart(GROUP_DESCRIPTION, _group(_bucket(ENDLESS_ACTION))),
    "CVE-2024-34485, an entry of table features of length 0": multipart(TABLE_FEATURES, bytes(64)),
    "CVE-2024-34486, a property of a queue of length 0": message(
        QUEUE_REPLY, struct.pack("!Ixxxx", 1) + struct.pack("!IIHxxxxxx", 1, 1, 32) + ENDLESS_PROPERTY
    ),
    "CVE-2024-34487, an instruction of length 0": multipart(FLOW, _flow(_match(), ENDLESS_INSTRUCTION)),
    "CVE-2024-34488, an entry of length 0": multipart(FLOW, _flow(_match(), length=0)),
    "CVE-2024-34489, an element of a hello of length 0": message(HELLO, bytes(8)),
}
"""What makes Ryu 4.34 and os-ken 4.2 loop for ever, as anybody can see who leaves `examine` out."""

CUT_OFF = {
    "a flow that ends in its middle": multipart(FLOW, _flow(_match(ETH_DST))[:40]),
    "a flow longer than its message": multipart(FLOW, _flow(_match(), length=800)),
    "a match longer than its flow": multipart(FLOW, _flow(struct.pack("!HH4x", 1, 400))),
    "a field longer than its match": multipart(FLOW, _flow(_match(b"\x80\x00\x06\xff" + bytes(4)))),
    "a group of odd length": multipart(GROUP_DESCRIPTION, _group(b"", length=9)),
    "ports and a half": multipart(PORT_DESCRIPTION, port(1) + bytes(7)),
    "a reply that nobody asked for": multipart(5, bytes(16)),
    "a multipart reply without a kind": message(19, b""),
    "another version": message(FEATURES_REPLY, bytes(24), version=5),
    "a field of an action that is longer than it": multipart(
        GROUP_DESCRIPTION, _group(_bucket(struct.pack("!HHHBB8x", 25, 16, 0x8000, 6, 200)))
    ),
}


@pytest.mark.parametrize("data", [*LOOPS.values(), *CUT_OFF.values()], ids=[*LOOPS, *CUT_OFF])
def test_what_would_loop_or_overrun_is_not_parsed(data: bytes):
    try:
        verdict = examine(data[0], data[1], data)
    except Malformed:
        return
    assert verdict is Verdict.IGNORE


@pytest.mark.parametrize(
    "data",
    [
        message(HELLO),
        message(HELLO, struct.pack("!HHI", 1, 8, 0x10)),
        message(HELLO, struct.pack("!HHI", 1, 8, 0x70), version=6),
        message(FEATURES_REPLY, bytes(24)),
        multipart(FLOW, _flow(_match(ETH_DST), APPLY) + _flow(_match())),
        multipart(GROUP_DESCRIPTION, _group(_bucket(OUTPUT) + _bucket(SET_ETH_DST + OUTPUT))),
        multipart(PORT_DESCRIPTION, port(1) + port(2)),
    ],
)
def test_what_switches_say_is_parsed(data: bytes):
    assert examine(data[0], data[1], data) is Verdict.PARSE


def test_what_is_never_asked_for_is_ignored():
    assert examine(4, PACKET_IN, message(PACKET_IN, bytes(40))) is Verdict.IGNORE


@given(st.integers(0, 30), st.binary(max_size=200))
def test_it_comes_to_an_end_on_anything(kind: int, body: bytes):
    data = message(kind, body)
    with suppress(Malformed):
        examine(4, kind, data)


@given(st.data())
def test_a_good_reply_with_any_byte_changed_is_still_safe_to_walk(data: st.DataObject):
    good = bytearray(multipart(GROUP_DESCRIPTION, _group(_bucket(OUTPUT) + _bucket(SET_ETH_DST + OUTPUT))))
    good[data.draw(st.integers(8, len(good) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Malformed):
        examine(4, 19, bytes(good))
