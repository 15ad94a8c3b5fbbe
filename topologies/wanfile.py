"""The file format of a WAN: YAML with sites and links, as people write it, to a `Wan` and back.

name: two
defaults: {rate: 100mbit}
sites:
  - {name: tokyo, at: [35.68, 139.69]}
  - {name: oregon, at: [45.84, -119.70]}
links:
  - {between: [tokyo, oregon], delay: 45ms, reverse: {rate: 50mbit}}
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from topologies.errors import Fault, InputError, Place, did_you_mean
from topologies.fields import Duration, Name, Probability, Rate, Strict
from topologies.model import EdgeProperties, Link, Site, Wan, wan_faults
from topologies.yamlfile import Loaded, load, parse, validate

BUILTIN_FOLDER = Path(__file__).parent / "builtin"

Degrees = Annotated[float, Field(strict=False, allow_inf_nan=False)]
Latitude = Annotated[Degrees, Field(ge=-90, le=90)]
Longitude = Annotated[Degrees, Field(ge=-180, le=180)]


class PropertiesEntry(Strict):
    """What a direction of a link does, as far as the file says."""

    rate: Rate | None = None
    delay: Duration | None = None
    jitter: Duration | None = None
    loss: Probability | None = None
    reorder: Probability | None = None


class SiteEntry(Strict):
    """One site: a DC unless it says `kind: transit`; `at` is [latitude, longitude] in degrees."""

    name: Name
    kind: Literal["dc", "transit"] = "dc"
    at: tuple[Latitude, Longitude] | None = None


class LinkEntry(PropertiesEntry):
    """One link; its properties hold in both directions, except for what `reverse` says of the way back."""

    between: tuple[Name, Name]
    name: Name | None = None
    reverse: PropertiesEntry = PropertiesEntry()


class WanSpec(Strict):
    """A WAN file. `defaults` holds for every link that does not say otherwise."""

    name: Name
    description: str = ""
    defaults: PropertiesEntry = PropertiesEntry()
    sites: list[SiteEntry]
    links: list[LinkEntry]


def load_wan(path_or_name: Path | str) -> Wan:
    """A built-in WAN by its name, or the WAN in a file. InputError lists everything that is wrong in the file."""
    builtins = builtin_files()
    if isinstance(path_or_name, str) and path_or_name in builtins:
        return _to_wan(load(builtins[path_or_name]))
    path = Path(path_or_name)
    if not path.suffix and len(path.parts) == 1 and not path.exists():
        remedy = did_you_mean(str(path), list(builtins), "give the path of a WAN file")
        raise InputError("no built-in WAN and no file has this name", value=str(path), remedy=remedy)
    return _to_wan(load(path))


def read_wan(text: str, file: str = "WAN") -> Wan:
    """The WAN in a text of the file format; `file` is the name to use in errors."""
    return _to_wan(parse(text, file))


def write_wan(wan: Wan) -> str:
    """The WAN as a text of the file format; `read_wan` gives an equal WAN."""
    plain: dict[str, Any] = {"name": wan.name}
    if wan.description:
        plain["description"] = wan.description
    plain["sites"] = [_site_entry(site) for site in wan.sites]
    plain["links"] = [_link_entry(link) for link in wan.links]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)


def wan_schema() -> dict[str, Any]:
    """JSON schema of the file format, for editors."""
    return WanSpec.model_json_schema()


def builtin_files() -> dict[str, Path]:
    """Files of the built-in WANs by name."""
    return {path.stem: path for path in sorted(BUILTIN_FOLDER.glob("*.yaml"))}


def spec_faults(spec: WanSpec, place: Place = ()) -> list[Fault]:
    """What keeps a spec from being a WAN; `place` is where it stands in its file."""
    faults = list(_link_faults(spec)) or list(wan_faults(*_parts(spec)))
    return [replace(fault, place=(*place, *fault.place)) for fault in faults]


def spec_to_wan(spec: WanSpec) -> Wan:
    """The WAN of a spec that has no faults."""
    return Wan(spec.name, *_parts(spec), spec.description)


def _to_wan(loaded: Loaded) -> Wan:
    spec = validate(WanSpec, loaded)
    faults = spec_faults(spec)
    if faults:
        raise loaded.error(faults)
    return spec_to_wan(spec)


def _parts(spec: WanSpec) -> tuple[tuple[Site, ...], tuple[Link, ...]]:
    sites = tuple(Site(site.name, site.kind, *(site.at or (None, None))) for site in spec.sites)
    return sites, tuple(_link(link, spec.defaults) for link in spec.links)


def _link_faults(spec: WanSpec) -> Iterator[Fault]:
    """What would keep a link from being made."""
    for index, link in enumerate(spec.links):
        a, b = link.between
        if a == b:
            remedy = "name two sites, or delete the link"
            yield Fault(("links", index, "between"), "a link joins two different sites", a, remedy)
        for way, entries in (("", (link,)), ("reverse", (link.reverse, link))):
            if _given("reorder", *entries, spec.defaults) and not _given("delay", *entries, spec.defaults):
                place = ("links", index, *([way] if way else []))
                remedy = "give it a delay as well, or leave reorder out"
                yield Fault(place, "without a delay no packet can overtake another", link.reorder, remedy)
        if link.rate is None and spec.defaults.rate is None:
            remedy = "add rate: 100mbit here, or under defaults:"
            yield Fault(("links", index), f"the link {a}-{b} has no rate", remedy=remedy)


def _given(name: str, *entries: PropertiesEntry) -> float | None:
    """A property from the first entry that gives it."""
    given = (getattr(entry, name) for entry in entries)
    return next((value for value in given if value is not None), None)


def _link(entry: LinkEntry, defaults: PropertiesEntry) -> Link:
    a, b = entry.between
    return Link(a, b, _properties(entry, defaults), _properties(entry.reverse, entry, defaults), entry.name or "")


def _properties(*entries: PropertiesEntry) -> EdgeProperties:
    """Each property from the first entry that gives it."""
    rate = _given("rate", *entries)
    others = (_given(name, *entries) or 0.0 for name in ("delay", "jitter", "loss", "reorder"))
    return EdgeProperties(math.nan if rate is None else rate, *others)


def _site_entry(site: Site) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": site.name}
    if site.kind != "dc":
        plain["kind"] = site.kind
    if site.latitude is not None and site.longitude is not None:
        plain["at"] = [site.latitude, site.longitude]
    return plain


def _link_entry(link: Link) -> dict[str, Any]:
    plain: dict[str, Any] = {"between": [link.a, link.b]}
    if link.name != f"{link.a}-{link.b}":
        plain["name"] = link.name
    plain |= _properties_entry(link.forward)
    if link.backward != link.forward:
        plain["reverse"] = _properties_entry(link.backward)
    return plain


def _properties_entry(properties: EdgeProperties) -> dict[str, float]:
    """In plain SI numbers, which say exactly what is meant."""
    return {
        "rate": properties.rate_bps,
        "delay": properties.delay_s,
        "jitter": properties.jitter_s,
        "loss": properties.loss,
        "reorder": properties.reorder,
    }
