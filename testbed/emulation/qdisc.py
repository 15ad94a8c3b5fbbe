"""From what an edge shall do to packets, to what the kernel must hold for it, to bytes for netlink, and back. Pure.

A shaped port has a token bucket (tbf) at its root: the rate. Where the kernel has netem it is the bucket's
child, from the start and for ever, so that a change never replaces a queue that holds packets.
The layouts are those of linux/pkt_sched.h. Queues and bursts are counted in jumbo frames.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.emulation.plan import MTU_BYTES
from topologies import EdgeProperties

FRAME_BYTES = MTU_BYTES + 14
"""A full frame as a queue counts it: with its Ethernet header."""

BURST_S = 0.004
"""Tokens that may gather: what a timer that fires late on a busy core does not cost the link."""
MIN_BURST_FRAMES = 2
QUEUE_S = 0.05
"""Least length of a queue, in time at the set rate; the product of bandwidth and round trip where that is more."""
MIN_QUEUE_FRAMES = 16

TICK_NS = 64
"""The kernel tells a bucket's depth as time at its rate, in units of 64 ns."""

TBF_PARMS, TBF_RATE64, TBF_BURST = 1, 4, 6
NETEM_REORDER, NETEM_LATENCY64, NETEM_JITTER64 = 3, 10, 11
LINKLAYER_ETHERNET = 1
_TBF = struct.Struct("=BBHhHI BBHhHI III")
_NETEM = struct.Struct("=IIIIII")


@dataclass(frozen=True)
class TokenBucket:
    """A tbf. `limit_bytes` bounds what waits in it where it has no netem below."""

    rate_bytes_per_s: int
    burst_bytes: int
    limit_bytes: int


@dataclass(frozen=True)
class Impairment:
    """A netem. `loss` and `reorder` are probabilities in units of 2⁻³².

    `limit_packets` holds what is in flight and what waits.
    """

    delay_ns: int
    jitter_ns: int
    loss: int
    limit_packets: int
    reorder: int = 0


@dataclass(frozen=True)
class QdiscTree:
    """All that a shaped port holds; `impairment` is None on a kernel without netem."""

    bucket: TokenBucket
    impairment: Impairment | None

    @property
    def properties(self) -> EdgeProperties:
        """What the edge does to packets, as the kernel has rounded it."""
        rate_bps = self.bucket.rate_bytes_per_s * 8
        if self.impairment is None:
            return EdgeProperties(rate_bps)
        netem = self.impairment
        shares = netem.loss / 2**32, netem.reorder / 2**32
        return EdgeProperties(rate_bps, netem.delay_ns / 1e9, netem.jitter_ns / 1e9, *shares)


def wanted_tree(properties: EdgeProperties, netem: bool) -> QdiscTree:
    """What the kernel must hold. Without `netem` delay, jitter and loss have no place in it."""
    rate = math.floor(properties.rate_bps / 8)
    burst = max(MIN_BURST_FRAMES * FRAME_BYTES, math.ceil(rate * BURST_S))
    limit = max(MIN_QUEUE_FRAMES * FRAME_BYTES, math.ceil(rate * QUEUE_S))
    bucket = TokenBucket(rate, burst, min(limit, 2**32 - 1))
    if not netem:
        return QdiscTree(bucket, None)
    one_way_s = properties.delay_s + properties.jitter_s
    in_flight = math.ceil(rate * one_way_s / FRAME_BYTES)
    # A sender that halves its window when the queue overflows must not leave the link idle: a round trip's worth.
    waiting = math.ceil(max(limit, rate * 2 * one_way_s) / FRAME_BYTES)
    delay, jitter = round(properties.delay_s * 1e9), round(properties.jitter_s * 1e9)
    # Small packets fill a queue that is counted in packets: acknowledgements come one for each two full frames.
    packets = 2 * (in_flight + waiting)
    loss, reorder = (min(round(share * 2**32), 2**32 - 1) for share in (properties.loss, properties.reorder))
    return QdiscTree(bucket, Impairment(delay, jitter, loss, packets, reorder))


def encode_bucket(bucket: TokenBucket) -> bytes:
    """TCA_OPTIONS of a tbf."""
    ticks = bucket.burst_bytes * 1_000_000_000 // bucket.rate_bytes_per_s // TICK_NS
    rate32 = min(bucket.rate_bytes_per_s, 2**32 - 1)
    spec = (0, LINKLAYER_ETHERNET, 0, -1, 0, rate32)
    parms = _TBF.pack(*spec, 0, 0, 0, 0, 0, 0, bucket.limit_bytes, min(ticks, 2**32 - 1), 0)
    options = attribute(TBF_PARMS, parms) + attribute(TBF_BURST, struct.pack("=I", bucket.burst_bytes))
    if bucket.rate_bytes_per_s >= 2**32:
        options += attribute(TBF_RATE64, struct.pack("=Q", bucket.rate_bytes_per_s))
    return options


def decode_bucket(options: bytes) -> TokenBucket:
    """What the kernel says of a tbf. The burst comes back as time at the rate, and so a few bytes short."""
    found = dict(attributes(options))
    values = _TBF.unpack(found[TBF_PARMS][: _TBF.size])
    rate, limit, ticks = values[5], values[12], values[13]
    if TBF_RATE64 in found:
        rate = struct.unpack("=Q", found[TBF_RATE64])[0]
    return TokenBucket(rate, ticks * TICK_NS * rate // 1_000_000_000, limit)


def encode_impairment(netem: Impairment) -> bytes:
    """TCA_OPTIONS of a netem."""
    gap = 1 if netem.reorder else 0  # Every packet may be the one that overtakes.
    fixed = _NETEM.pack(0, netem.limit_packets, netem.loss, gap, 0, 0)
    reorder = attribute(NETEM_REORDER, struct.pack("=II", netem.reorder, 0))
    delay = attribute(NETEM_LATENCY64, struct.pack("=q", netem.delay_ns))
    return fixed + reorder + delay + attribute(NETEM_JITTER64, struct.pack("=q", netem.jitter_ns))


def decode_impairment(options: bytes) -> Impairment:
    """What the kernel says of a netem."""
    _, limit, loss, gap, _, _ = _NETEM.unpack(options[: _NETEM.size])
    found = dict(attributes(options[_NETEM.size :]))
    delay, jitter = (struct.unpack("=q", found[kind])[0] for kind in (NETEM_LATENCY64, NETEM_JITTER64))
    reorder = struct.unpack_from("=I", found[NETEM_REORDER])[0] if gap else 0
    return Impairment(delay, jitter, loss, limit, reorder)


def holds(tree: QdiscTree, wanted: QdiscTree) -> bool:
    """Whether what the kernel says is what was wanted, but for the rounding of the burst to ticks of its clock."""
    have, want = tree.bucket, wanted.bucket
    tick_bytes = math.ceil(want.rate_bytes_per_s * TICK_NS / 1e9)
    same_burst = want.burst_bytes - 2 * tick_bytes - 1 <= have.burst_bytes <= want.burst_bytes
    same_bucket = (have.rate_bytes_per_s, have.limit_bytes) == (want.rate_bytes_per_s, want.limit_bytes)
    return same_bucket and same_burst and tree.impairment == wanted.impairment


def attribute(kind: int, value: bytes) -> bytes:
    """One netlink attribute, padded to four bytes."""
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of every attribute in `data`; flag bits of the kind are cut off."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]
