"""Forwarding rules as values, before they become OpenFlow: what to match, what to do, whose rule it is.

Pure. `ofmsgs` turns these into messages; the tests' in-memory table applies them as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from controller.view import Pair

OURS = 0x52
"""The top byte of the cookie of every rule of ours (an R)."""

VERSION = 1
"""Of the tunnel plan, in every cookie and tag: rules of another plan can live beside these without being mistaken."""

MAX_PAIRS = 2**24
MAX_TUNNELS_PER_PAIR = 2**8


class Kind(IntEnum):
    """What a rule is for; a byte of its cookie."""

    TABLE_MISS = 0
    INGRESS = 1
    TRANSIT = 2
    EGRESS = 3


PRIORITIES = {Kind.TABLE_MISS: 0, Kind.TRANSIT: 100, Kind.EGRESS: 100, Kind.INGRESS: 200}


@dataclass(frozen=True)
class Match:
    """Every given field must be equal; None matches anything."""

    eth_dst: str | None = None
    in_port: int | None = None


@dataclass(frozen=True)
class SetDestination:
    """Rewrite the destination MAC address."""

    mac: str


@dataclass(frozen=True)
class Output:
    """Send out of a port of this switch."""

    port: int


Action = SetDestination | Output


@dataclass(frozen=True)
class Rule:
    """One entry of a flow table. No actions: drop."""

    priority: int
    match: Match
    actions: tuple[Action, ...]
    cookie: int


@dataclass(frozen=True)
class RuleChange:
    """`add` installs, and replaces a rule of equal match and priority; `modify` gives that rule new actions in place,
    atomic for packets, its counters kept; `delete` takes it away."""

    operation: Literal["add", "modify", "delete"]
    rule: Rule


@dataclass(frozen=True)
class Batch:
    """Changes for one switch, in order, which one barrier confirms."""

    site: str
    changes: tuple[RuleChange, ...]
    tags: frozenset[str] = frozenset()
    """Tunnels whose transit or egress rule at this site is in `changes`."""
    ingress: tuple[tuple[Pair, str], ...] = ()
    """(pair, tag of the tunnel) for each ingress rule in `changes`."""


def cookie(kind: Kind, pair_number: int = 0, tunnel_number: int = 0) -> int:
    """64 bits: ours, kind, version, pair (24), tunnel, and a byte of zeros."""
    return OURS << 56 | kind << 48 | VERSION << 40 | pair_number << 16 | tunnel_number << 8


INGRESS_COOKIE_MASK = 0xFFFF_FF00_0000_0000
"""With `cookie(Kind.INGRESS)`: selects the ingress rules of this version."""


def pair_number_of(rule_cookie: int) -> int:
    """The pair that `cookie` was given."""
    return rule_cookie >> 16 & 0xFF_FFFF


def tag_of(pair_number: int, tunnel_number: int) -> str:
    """A tunnel's tag: a locally administered unicast MAC address that holds version, pair and tunnel.

    Hosts' own addresses start with 02, so no tag is ever a host.
    """
    octets = (0x0A, VERSION, *pair_number.to_bytes(3), tunnel_number)
    return ":".join(f"{octet:02x}" for octet in octets)
