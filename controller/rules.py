"""Forwarding rules and groups as values, before they become OpenFlow: what to match, what to do, whose they are.

Pure. `ofmsgs` turns these into messages; the tests' in-memory table applies them as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

from controller.view import Pair

OURS = 0x52
"""The top byte of every cookie of ours (an R)."""
OUR_GROUPS = 0x5
"""The top four bits of every group number of ours: there is no room for more of them beside the version."""

MAX_VERSION = 2**12 - 1
"""Of a plan, counted from 1."""

MAX_PAIRS = 2**24
MAX_TUNNELS_PER_PAIR = 2**8
MAX_DETOURS = 2**24
MAX_GROUPS_PER_SITE = 2**16


class Kind(IntEnum):
    """What a rule is for; four bits of its cookie."""

    TABLE_MISS = 0
    INGRESS = 1
    TRANSIT = 2
    EGRESS = 3
    DETOUR_TRANSIT = 4
    DETOUR_EGRESS = 5


PRIORITIES = {
    Kind.TABLE_MISS: 0,
    Kind.TRANSIT: 100,
    Kind.EGRESS: 100,
    Kind.DETOUR_TRANSIT: 100,
    Kind.DETOUR_EGRESS: 100,
    Kind.INGRESS: 200,
}


@dataclass(frozen=True)
class Match:
    """Every given field must be equal; None matches anything.

    `others` are fields that no rule of ours has, as (name, value): they are kept so that a rule which was found on a
    switch can be named in order to delete it.
    """

    eth_dst: str | None = None
    in_port: int | None = None
    others: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class SetDestination:
    """Rewrite the destination MAC address."""

    mac: str


@dataclass(frozen=True)
class Output:
    """Send out of a port of this switch; a switch drops what came in by that very port."""

    port: int


@dataclass(frozen=True)
class OutputBack:
    """Send out of the port that the packet came in by (OFPP_IN_PORT)."""


@dataclass(frozen=True)
class OutputGroup:
    """Hand over to a group of this switch."""

    number: int


@dataclass(frozen=True)
class Unknown:
    """An action that was found on a switch and that no rule of ours has."""

    text: str


Action = SetDestination | Output | OutputBack | OutputGroup | Unknown


@dataclass(frozen=True)
class Rule:
    """One entry of a flow table. No actions: drop."""

    priority: int
    match: Match
    actions: tuple[Action, ...]
    cookie: int


@dataclass(frozen=True)
class Bucket:
    """Serves while the port it watches is live; always if it watches none."""

    watch_port: int | None
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Group:
    """With several buckets a fast-failover group: the first that is live gets the packet; without one it is dropped.

    With one bucket it is an indirect group, which watches nothing.
    """

    number: int
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True)
class RuleChange:
    """`add` installs, and replaces a rule of equal match and priority; `modify` gives that rule new actions in place,
    atomic for packets, its counters kept; `delete` takes it away."""

    operation: Literal["add", "modify", "delete"]
    rule: Rule


@dataclass(frozen=True)
class GroupChange:
    """`add` is refused if there is one of that number, `modify` if there is none; `delete` also deletes, as OpenFlow
    has it, every rule that hands over to it."""

    operation: Literal["add", "modify", "delete"]
    group: Group


Change = RuleChange | GroupChange


@dataclass(frozen=True)
class Batch:
    """Changes for one switch, in order, which one barrier confirms."""

    site: str
    changes: tuple[Change, ...]
    tags: frozenset[str] = frozenset()
    """Tunnels and detours whose transit or egress rule at this site is in `changes`."""
    ingress: tuple[tuple[Pair, str], ...] = ()
    """(pair, tag of the tunnel) for each ingress rule in `changes`."""
    groups: tuple[tuple[int, str], ...] = ()
    """(number, tag of the detour in its second bucket or "") for each group in `changes`."""


@dataclass(frozen=True)
class Held:
    """What was read from a switch: its rules and groups in our number spaces."""

    rules: tuple[Rule, ...] = ()
    groups: tuple[Group, ...] = ()


EMPTY = Held()


def cookie(kind: Kind, version: int, number: int = 0, variant: int = 0) -> int:
    """64 bits: ours (8), kind (4), version of the plan (12), pair or detour (24), its tunnel (8), and zeros (8)."""
    return OURS << 56 | kind << 52 | version << 40 | number << 16 | variant << 8


OURS_COOKIE, OURS_COOKIE_MASK = OURS << 56, 0xFF << 56
"""Select every rule of ours, of whatever version."""

INGRESS_COOKIE_MASK = 0xFFFF_FF00_0000_0000
"""With `cookie(Kind.INGRESS, version)`: selects the ingress rules of that version."""


def pair_number_of(rule_cookie: int) -> int:
    """The pair that `cookie` was given."""
    return rule_cookie >> 16 & 0xFF_FFFF


def tag_of(version: int, pair_number: int, tunnel_number: int) -> str:
    """A tunnel's tag: a locally administered unicast MAC address that holds version, pair and tunnel.

    Hosts' own addresses have a 2 as their second digit, tags an a or an e, so no tag is ever a host.
    """
    return _mac(0x0A, version, pair_number, tunnel_number)


def detour_tag_of(version: int, detour_number: int, variant: int) -> str:
    """As `tag_of`, for a detour: its first byte is another, so no detour is ever a tunnel."""
    return _mac(0x0E, version, detour_number, variant)


def group_number(version: int, index: int) -> int:
    """32 bits: ours (4), version (12), index (16) among the groups of one switch."""
    return OUR_GROUPS << 28 | version << 16 | index


def is_our_group(number: int) -> bool:
    """Whether a group on a switch is ours, of whatever version."""
    return number >> 28 == OUR_GROUPS


def _mac(kind: int, version: int, number: int, variant: int) -> str:
    """The upper four bits of the first byte are the version's: what makes an address local and unicast is below."""
    octets = (version >> 8 << 4 | kind, version & 0xFF, *number.to_bytes(3), variant)
    return ":".join(f"{octet:02x}" for octet in octets)
