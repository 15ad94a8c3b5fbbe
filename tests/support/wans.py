"""WANs for tests: small ones by hand, random connected ones for properties, and wiring for any."""

from __future__ import annotations

from hypothesis import strategies as st

from controller.settings import HostPort, Wiring
from topologies import EdgeProperties, Link, Site, Wan

HOST_PORT = 100


def wan_of(rates_bps: dict[str, float], transit: str = "") -> Wan:
    """Sites of one letter each, from links such as `{"ab": 1e8}`; the letters in `transit` are no DCs."""
    names = sorted(set("".join(rates_bps)))
    sites = tuple(Site(name, "transit" if name in transit else "dc") for name in names)
    links = (Link(a, b, EdgeProperties(rate), EdgeProperties(rate)) for (a, b), rate in rates_bps.items())
    return Wan("test", sites, tuple(links))


def wiring_of(wan: Wan) -> Wiring:
    """Ports counted from 1 at each site in the order of its links; hosts on port 100."""
    ports = {(site.name, peer): i for site in wan.sites for i, peer in enumerate(wan.neighbors(site.name), 1)}
    numbers = {site.name: number for number, site in enumerate(wan.sites, 1)}
    hosts = {name: HostPort(HOST_PORT, f"02:00:00:00:00:{number:02x}") for name, number in numbers.items()}
    return Wiring(numbers, ports, hosts)


@st.composite
def random_wans(draw: st.DrawFn, max_sites: int = 6) -> Wan:
    """Connected, 2 to `max_sites` sites, at least two of them DCs, any links, rates from 1 to 200 Mbit/s."""
    names = "abcdefghij"[: draw(st.integers(2, max_sites))]
    tree = [(names[draw(st.integers(0, i - 1))], names[i]) for i in range(1, len(names))]
    every = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    more = draw(st.lists(st.sampled_from(every), unique=True))
    links = list(dict.fromkeys([*tree, *more]))
    transit = draw(st.sets(st.sampled_from(names), max_size=len(names) - 2))
    rates = {f"{a}{b}": draw(st.integers(1, 200)) * 1e6 for a, b in links}
    return wan_of(rates, "".join(transit))
