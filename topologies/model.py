"""A WAN as frozen values: sites joined by links, each link two directed edges with properties of their own.

Names are for people and are free (spaces, accents, any script); whatever needs short or plain names (interfaces,
files) makes its own. A `Wan` that exists is valid: the constructor refuses everything else with an `InputError`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from topologies.errors import Fault, InputError, did_you_mean

Edge = tuple[str, str]
"""A directed edge: (from site, to site), by name."""

MAX_NAME_LENGTH = 120
MIN_RATE_BPS = 8e3
"""Below one kilobyte a second a jumbo frame takes nine seconds: nothing that runs here could be told from a failure."""
MAX_RATE_BPS = 1e12


@dataclass(frozen=True)
class Site:
    """A place where traffic starts, ends or passes: a `dc` holds workers, a `transit` point only forwards.

    `latitude` and `longitude` are degrees (north and east positive), or None where a site has no place on a map.
    """

    name: str
    kind: Literal["dc", "transit"] = "dc"
    latitude: float | None = None
    longitude: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "site")
        if self.kind not in ("dc", "transit"):
            raise InputError("a site is a dc or a transit", place=f"site {self.name}", value=self.kind)
        for what, value, bound in (("latitude", self.latitude, 90), ("longitude", self.longitude, 180)):
            if value is not None and not -bound <= value <= bound:
                raise InputError(f"{what} lies between -{bound} and {bound}", place=f"site {self.name}", value=value)


@dataclass(frozen=True)
class EdgeProperties:
    """What one direction of a link does to packets. Loss and reorder are probabilities, from 0 to below 1.

    A packet that is reordered waits for no delay and so overtakes those that do.
    """

    rate_bps: float
    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    reorder: float = 0.0

    def __post_init__(self) -> None:
        checks = (
            (
                "rate_bps",
                MIN_RATE_BPS <= self.rate_bps <= MAX_RATE_BPS,
                "a rate from 8 kbit/s to 1 Tbit/s, as 100mbit",
            ),
            ("delay_s", 0 <= self.delay_s <= 10, "a delay from 0 to 10 s, as 25ms"),
            ("jitter_s", 0 <= self.jitter_s <= 10, "a jitter from 0 to 10 s, as 1ms"),
            ("loss", 0 <= self.loss < 1, "a probability from 0 to below 1, as 0.001"),
            ("reorder", 0 <= self.reorder < 1, "a probability from 0 to below 1, as 0.01"),
        )
        for name, good, remedy in checks:
            value = getattr(self, name)
            if not (math.isfinite(value) and good):
                raise InputError(f"{name} is out of range", value=value, remedy=f"give {remedy}")
        if self.reorder and not self.delay_s:
            raise InputError(
                "without a delay no packet can overtake another", value=self.reorder, remedy="give a delay as well"
            )


@dataclass(frozen=True)
class Link:
    """Two sites and what each direction between them does; `forward` is from `a` to `b`."""

    a: str
    b: str
    forward: EdgeProperties
    backward: EdgeProperties
    name: str = ""

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise InputError("a link joins two different sites", place=f"link {self.a}-{self.b}", value=self.a)
        if not self.name:
            object.__setattr__(self, "name", f"{self.a}-{self.b}")
        check_name(self.name, "link", limit=2 * MAX_NAME_LENGTH + 1)

    @property
    def edges(self) -> tuple[Edge, Edge]:
        """The two directions, forward first."""
        return (self.a, self.b), (self.b, self.a)

    def properties(self, edge: Edge) -> EdgeProperties:
        """Of one direction; KeyError for an edge that is not of this link."""
        return {self.edges[0]: self.forward, self.edges[1]: self.backward}[edge]


@dataclass(frozen=True)
class Wan:
    """A connected graph of at least two DCs. Order of sites and links is the order of the file, and is kept."""

    name: str
    sites: tuple[Site, ...]
    links: tuple[Link, ...]
    description: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "WAN")
        for fault in wan_faults(self.sites, self.links):
            raise InputError(fault.message, place=f"WAN {self.name}", value=fault.value, remedy=fault.remedy)

    @cached_property
    def dcs(self) -> tuple[str, ...]:
        """Names of the sites that hold workers, in order: rank i of a run works in dcs[i]."""
        return tuple(s.name for s in self.sites if s.kind == "dc")

    @cached_property
    def edges(self) -> dict[Edge, EdgeProperties]:
        """Every directed edge and its properties."""
        return {edge: link.properties(edge) for link in self.links for edge in link.edges}

    @cached_property
    def _site_by_name(self) -> dict[str, Site]:
        return {s.name: s for s in self.sites}

    @cached_property
    def _link_by_edge(self) -> dict[Edge, Link]:
        return {edge: link for link in self.links for edge in link.edges}

    @cached_property
    def _link_by_name(self) -> dict[str, Link]:
        names: dict[str, Link] = {f"{link.b}-{link.a}": link for link in self.links}
        names |= {f"{link.a}-{link.b}": link for link in self.links}
        return names | {link.name: link for link in self.links}

    def site(self, name: str) -> Site:
        """The site of that name; InputError with the nearest name if there is none."""
        if name not in self._site_by_name:
            raise InputError(f"no site {name!r} in {self.name}", remedy=did_you_mean(name, list(self._site_by_name)))
        return self._site_by_name[name]

    def link(self, ref: str | Edge | Link) -> Link:
        """The link meant by its name, by `a-b` or `b-a`, or by a pair of sites. InputError if there is none."""
        if isinstance(ref, Link):
            ref = (ref.a, ref.b)
        if isinstance(ref, str):
            if ref not in self._link_by_name:
                known = [link.name for link in self.links]
                raise InputError(f"no link {ref!r} in {self.name}", remedy=did_you_mean(ref, known))
            return self._link_by_name[ref]
        found = self._link_by_edge.get((ref[0], ref[1]))
        if found is None:
            self.site(ref[0]), self.site(ref[1])
            near = [f"{ref[0]}-{n}" for n in self.neighbors(ref[0])]
            raise InputError(
                f"no link joins {ref[0]!r} and {ref[1]!r} in {self.name}", remedy=f"known: {', '.join(near)}"
            )
        return found

    def neighbors(self, site: str) -> tuple[str, ...]:
        """Sites one link away, in the order of the links."""
        return tuple(dst for src, dst in self.edges if src == site)

    def with_properties(self, changed: dict[Edge, EdgeProperties]) -> Wan:
        """The same WAN, some directed edges with other properties."""

        def _link(link: Link) -> Link:
            forward, backward = link.edges
            return replace(
                link,
                forward=changed.get(forward, link.forward),
                backward=changed.get(backward, link.backward),
            )

        return replace(self, links=tuple(_link(link) for link in self.links))

    def __iter__(self) -> Iterator[Site]:
        return iter(self.sites)


def check_name(name: object, what: str, limit: int = MAX_NAME_LENGTH) -> None:
    """A name is free text on one line: not empty, no control characters, not longer than `limit`."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"a {what} needs a name", value=name, remedy="give it one, as in name: tokyo")
    if len(name) > limit:
        raise InputError(f"the name of a {what} has at most {limit} characters", value=name)
    if name != name.strip() or not name.isprintable():
        raise InputError(f"the name of a {what} is one line without spaces at its ends", value=name)


def wan_faults(sites: Sequence[Site], links: Sequence[Link]) -> Iterator[Fault]:
    """Everything that keeps these sites and links from being one WAN; places are `("sites", i)` and `("links", i)`."""
    names = [site.name for site in sites]
    yield from _repeated("sites", names, "two sites have the same name", "rename one of them")
    ends = [" ↔ ".join(sorted((link.a, link.b))) for link in links]
    parallel = list(_repeated("links", ends, "two links join the same sites", "add their rates into one link"))
    same_name = _repeated("links", [link.name for link in links], "two links have the same name", "rename one of them")
    yield from parallel
    yield from (fault for fault in same_name if fault.place not in [known.place for known in parallel])
    unknown = [(i, end) for i, link in enumerate(links) for end in (link.a, link.b) if end not in names]
    for i, end in unknown:
        yield Fault(("links", i), "a link ends at an unknown site", end, did_you_mean(end, names))
    dcs = [site.name for site in sites if site.kind == "dc"]
    if len(dcs) < 2:
        yield Fault(("sites",), "a WAN needs at least two DCs", dcs, "add a site of kind dc, and a link to it")
    cut_off = [] if unknown else _cut_off(names, links)
    if cut_off:
        yield Fault(
            ("links",), "the WAN is in pieces", cut_off, f"add a link that joins {cut_off[0]!r} to {names[0]!r}'s piece"
        )


def _repeated(what: str, keys: list[str], message: str, remedy: str) -> Iterator[Fault]:
    for index, key in enumerate(keys):
        if key in keys[:index]:
            yield Fault((what, index), message, key, remedy)


def _cut_off(names: list[str], links: Sequence[Link]) -> list[str]:
    """Sites that no path joins to the first one."""
    neighbors: dict[str, list[str]] = {name: [] for name in names}
    for link in links:
        neighbors[link.a].append(link.b)
        neighbors[link.b].append(link.a)
    reached, frontier = set(names[:1]), names[:1]
    while frontier:
        new = [site for site in neighbors[frontier.pop()] if site not in reached]
        reached.update(new)
        frontier.extend(new)
    return [name for name in names if name not in reached]
