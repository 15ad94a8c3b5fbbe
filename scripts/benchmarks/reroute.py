"""The figures of the WAN controller: what failures, moves and drops of capacity cost the packets under way.

Everything on the network is measured at the receiver of 1 ms probes, or by taps on links, while a ring of real workers
runs. Each part that runs on a network brings one up of its own; what nobody did anything to is measured too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import decisions, spanningtree, survival
from benchmarks.control import load
from benchmarks.decisions import wiring_of
from benchmarks.figure import Figure, Part, Reach, figure, figures_of, percentile
from benchmarks.virtual import in_virtual_time
from controller.client import EventStream
from controller.engine import network_of
from controller.settings import ControllerConfig, ControllerSettings
from controller.state import Network
from controller.view import Pair, Route
from testbed.bed import Testbed
from testbed.emulation.tap import Taps
from testbed.measure_flows import ProbeFlow, probe_flow
from testbed.probes import Probes, overtaken_on_their_path
from topologies import RingroadError
from topologies.wanfile import load_wan

TRIALS = 30
PAIR = ("virginia", "tokyo")
"""No neighbors on `six`: every path between them has a link that is not at its ingress. The ring goes the other way."""
DOWN_S = 0.3
SETTLE_S = 0.7
"""Paces, not waits: what a trial does to the network has its time to show, and to pass. Longer than the dwell."""
STAYS_S = 1.0
EVENT_S = 10.0
DROPPED_BPS = 8e6
SLOWEST, SLOWEST_BPS = ("mumbai", "oregon"), 10e6
SHARD_BYTES, CHUNK_BYTES = 32 * 1024, 16 * 1024
"""Small: a collective begins with every rank sending its shard at once, and a probe that waits behind one, 4 ms on a
link of 60 Mbit/s, shows the queue and not the repair."""
BETWEEN_MOVES_S = 0.1
MOVES = 100
AGAINST = f"{TRIALS} trials on six, 1 ms probes, under a running ring of {SHARD_BYTES // 1024} KiB shards"
NOTHING = Reach(at_least=0, at_most=0)


@dataclass
class Trials:
    """Spans of time in which something was done, and spans before each in which nothing was."""

    done: list[tuple[float, float]] = field(default_factory=list)
    quiet: list[tuple[float, float]] = field(default_factory=list)

    @contextmanager
    def one(self) -> Iterator[None]:
        """A trial lasts as long as the context; before it, as long a time of quiet."""
        quiet_from = time.monotonic()
        time.sleep(DOWN_S)
        begun = time.monotonic()
        self.quiet.append((quiet_from, begun))
        yield
        self.done.append((begun, time.monotonic()))

    def gaps_ms(self, probes: Probes) -> tuple[list[float], list[float]]:
        """The longest gap of each trial, and of each time of quiet."""
        done, quiet = ([probes.longest_gap_s(*span) * 1e3 for span in spans] for spans in (self.done, self.quiet))
        return done, quiet

    def losses(self, probes: Probes) -> tuple[list[int], list[int]]:
        """The probes lost in each trial, and in each time of quiet."""
        done, quiet = ([probes.lost(*span) for span in spans] for spans in (self.done, self.quiet))
        return done, quiet


def adjacent_link_down() -> Iterator[Figure]:
    """The first link of a path goes down, again and again: how long until its switch has turned to the detour?"""
    route = ("virginia", "oregon", "tokyo")
    with _network(ControllerSettings()) as bed, probe_flow(bed, PAIR) as flow:
        bed.controller.pin(PAIR, route)
        probes, trials = _fail_again_and_again(bed, flow, lambda: route[:2])
    yield from _gap_figures("adjacent link down", probes, trials, Reach(at_most=8), Reach(at_most=20))
    done, quiet = trials.losses(probes)
    # A probe a millisecond: those that the switch sent into the link until it saw it down, and those queued there.
    against = f"most in one trial; median {median(done):g}; {max(quiet)} with nothing done"
    yield figure("adjacent link down, probes lost", max(done), "packets", against, Reach(at_most=20))


def remote_link_down() -> Iterator[Figure]:
    """The last link of a path goes down, with no detours: how long until the controller has moved the pair?"""
    with _network(ControllerSettings(detours=False)) as bed, probe_flow(bed, PAIR) as flow:
        probes, trials = _fail_again_and_again(bed, flow, lambda: bed.controller.view().routes[PAIR][-2:])
    yield from _gap_figures("remote link down, no detours", probes, trials, Reach(at_most=25), Reach(at_most=50))


def planned_moves() -> Iterator[Figure]:
    """A pair moved between its paths, again and again: what is lost, and what is out of order on one path?"""
    spans = []
    with _network(ControllerSettings()) as bed, probe_flow(bed, PAIR) as flow:
        paths = bed.controller.view().tunnels[PAIR]
        quiet = time.monotonic(), time.monotonic() + MOVES * BETWEEN_MOVES_S
        time.sleep(quiet[1] - quiet[0])
        before = _dropped(bed)
        for number in range(MOVES):
            begun = time.monotonic()
            bed.controller.pin(PAIR, paths[number % len(paths)])
            time.sleep(BETWEEN_MOVES_S)
            spans.append((begun, time.monotonic()))
        queues, stray = (after - earlier for after, earlier in zip(_dropped(bed), before, strict=True))
        probes = flow.finish()
    lost = sum(probes.lost(*span) for span in spans)
    overtaken = sum(overtaken_on_their_path(probes.order(*span)) for span in spans)
    sent = sum(len(probes.between(*span)) for span in spans)
    against = (
        f"{sent} probes, {MOVES} moves among {len(paths)} paths of six, under a running ring; "
        f"{probes.lost(*quiet)} lost before in as long a time; dropped: {queues} by full queues, {stray} by the machine"
    )
    yield figure("planned move, packets lost", lost, "packets", against, NOTHING)
    name = "planned move, out of order beyond the path difference"
    yield figure(name, overtaken, "packets", against, NOTHING)


def capacity_drops() -> Iterator[Figure]:
    """The first link of a path loses capacity: from when the kernel held it, how long until data is on another link?"""
    took_s, confirmed_s = [], []
    with _network(ControllerSettings()) as bed, probe_flow(bed, PAIR) as flow:
        peers = bed.wan.neighbors(PAIR[0])
        far_ends = {peer: bed.plan.ports[peer, PAIR[0]].interface for peer in peers}
        with Taps(far_ends, flow.port) as taps, bed.controller.subscribe() as events:
            for _ in range(TRIALS):
                edge = _route(bed)[:2]
                taps.forget()
                rate_bps = bed.wan.edges[edge].rate_bps
                called_at = time.monotonic()
                bed.shape(edge, rate_bps=DROPPED_BPS, direction=edge)
                happened_at, installed_at = _when_the_drop_was_held(events, called_at)
                seen = taps.first_elsewhere(edge[1], happened_at, EVENT_S)
                if seen is None:
                    raise RingroadError(f"data stays on {edge[0]} → {edge[1]} after it lost its capacity")
                took_s.append(seen.at - happened_at)
                confirmed_s.append(installed_at - happened_at)
                bed.shape(edge, rate_bps=rate_bps, direction=edge)
                _wait_until_it_stays(events)
    name = "capacity drop → data on the new path"
    for share, reach in ((0.5, Reach(at_most=15)), (0.99, Reach(at_most=40))):
        confirmed_ms = percentile(confirmed_s, share) * 1e3
        against = f"the kernel's change of rate, feed delay 0; switch confirmed after {confirmed_ms:.1f}; {AGAINST}"
        yield figure(f"{name}, p{share * 100:.0f}", percentile(took_s, share) * 1e3, "ms", against, reach)


def rules_per_switch() -> Iterator[Figure]:
    """Rules and groups on each switch of b4, all pairs, four tunnels each."""
    wan = load_wan("b4")
    settings = ControllerSettings(tunnels=4)
    network = network_of(ControllerConfig(wan, wiring_of(wan), Path("/none"), settings))
    ingress = {site: sum(pair[0] == site for pair in network.plan.tunnels) for site in network.sites}
    rules = [1 + ingress[site] + len(network.through[site]) for site in network.sites]
    plain = network_of(ControllerConfig(wan, wiring_of(wan), Path("/none"), ControllerSettings(detours=False)))
    without = [1 + ingress[site] + len(plain.through[site]) for site in network.sites]
    groups = [len(network.keys[site]) for site in network.sites]
    against = (
        f"{len(network.plan.tunnels)} pairs × {settings.tunnels} tunnels, {len(network.detours)} detours; one rule for "
        f"each tunnel and detour through a site, one ingress rule a pair; median {median(rules):g}"
    )
    yield figure("rules on all switches of b4", sum(rules), "rules", _by_kind(network), Reach())
    yield figure("rules on a switch of b4, least", min(rules), "rules", against, Reach())
    yield figure("rules on a switch of b4, most", max(rules), "rules", against, Reach())
    yield figure("rules on a switch of b4 without detours, most", max(without), "rules", "the same", Reach())
    against = f"one for each outgoing link, incoming link and destination; median {median(groups):g}"
    for word, value in (("all switches of b4", sum(groups)), ("a switch of b4, most", max(groups))):
        yield figure(f"fast-failover groups on {word}", value, "groups", f"{against}, least {min(groups)}", Reach())


def _by_kind(network: Network) -> str:
    """How many rules there are of each kind, without those for packets that match nothing."""
    ends = Counter(
        (type(carrier).__name__.lower(), "egress" if site == carrier.route[-1] else "transit")
        for site, carriers in network.through.items()
        for carrier in carriers
    )
    inner = ", ".join(f"{kind} {end} {count:,}" for (kind, end), count in sorted(ends.items(), reverse=True))
    return f"ingress {len(network.plan.tunnels)}, {inner}"


PARTS: tuple[Part, ...] = (
    decisions.maxmin_on_twelve_sites,
    decisions.all_pairs_widest,
    rules_per_switch,
    survival.restarts,
    adjacent_link_down,
    in_virtual_time(adjacent_link_down),
    remote_link_down,
    planned_moves,
    capacity_drops,
    spanningtree.link_down,
)


def measure(say: Callable[[str], None]) -> Iterator[Figure]:
    """The WAN controller: repair, moves and drops under a running ring, decisions, and spanning tree as the peer."""
    yield from figures_of(PARTS, say)


@contextmanager
def _network(settings: ControllerSettings) -> Iterator[Testbed]:
    """`six` under a running ring, one of whose links is so narrow that it fills no other link.

    A ring goes at the pace of its slowest link; a probe that is lost is then not lost to congestion.
    """
    with Testbed(load_wan("six"), controller=settings) as bed:
        bed.controller.pin(SLOWEST, SLOWEST)
        bed.shape(SLOWEST, rate_bps=SLOWEST_BPS, direction=SLOWEST)
        with load(bed, SHARD_BYTES, chunk_bytes=CHUNK_BYTES):
            yield bed


def _fail_again_and_again(bed: Testbed, flow: ProbeFlow, link: Callable[[], Route]) -> tuple[Probes, Trials]:
    trials = Trials()
    with bed.controller.subscribe() as events:
        for _ in range(TRIALS):
            a, b = link()
            with trials.one():
                bed.fail((a, b))
                time.sleep(DOWN_S)
            bed.heal((a, b))
            _wait_until_up(bed, events)
            time.sleep(SETTLE_S)
    return flow.finish(), trials


def _wait_until_up(bed: Testbed, events: EventStream) -> None:
    """Until the controller takes every link for up."""
    while bed.controller.view().down:
        with suppress(TimeoutError):
            next(event for event in events.events(EVENT_S) if event["event"] == "link" and event["up"])


def _dropped(bed: Testbed) -> tuple[int, int]:
    """Packets that were dropped so far by queues that were full, and where no link is emulated."""
    return sum(status.queue_drops for status in bed.links()), sum(bed.stray_drops().values())


def _route(bed: Testbed) -> Route:
    return bed.controller.view().routes[PAIR]


def _when_the_drop_was_held(events: EventStream, called_at: float) -> tuple[float, float]:
    """When the kernel held the change, made since `called_at`, and when the switches confirmed that the pair moved."""
    try:
        for event in events.events(EVENT_S):
            if event["event"] != "reconfiguration" or event["installed_at"] is None or not _moves(event, PAIR):
                continue
            if event["cause"] == "capacity" and event["happened_at"] >= called_at:
                return event["happened_at"], event["installed_at"]
    except TimeoutError as error:
        raise RingroadError(f"{PAIR[0]} → {PAIR[1]} has not been moved within {EVENT_S:g} s") from error
    raise RingroadError("the controller is gone")


def _wait_until_it_stays(events: EventStream) -> None:
    """Until the pair has not moved for longer than the dwell: whatever it was going to do, it has done."""
    deadline = time.monotonic() + STAYS_S
    with suppress(TimeoutError):
        while (left_s := deadline - time.monotonic()) > 0:
            event = next(events.events(left_s))
            if event["event"] == "reconfiguration" and _moves(event, PAIR):
                deadline = time.monotonic() + STAYS_S


def _moves(event: dict, pair: Pair) -> bool:
    return any(tuple(move["pair"]) == pair for move in event["moves"])


def _gap_figures(name: str, probes: Probes, trials: Trials, half: Reach, most: Reach) -> Iterator[Figure]:
    done, quiet = trials.gaps_ms(probes)
    against = f"{AGAINST}; with nothing done {percentile(quiet, 0.5):.1f}"
    yield figure(f"{name}, longest gap, p50", percentile(done, 0.5), "ms", against, half)
    against = f"{AGAINST}; with nothing done {percentile(quiet, 0.99):.1f}"
    yield figure(f"{name}, longest gap, p99", percentile(done, 0.99), "ms", against, most)
