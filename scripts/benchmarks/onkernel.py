"""Measurements that run inside a kernel of any kind and write what they measured to a file, as JSON.

    python -m benchmarks.onkernel FILE ring mesh4 --rate 100e6 --size 8388608

Whoever wants figures from another kernel boots it with this as its command (see kernels.py). Judges nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from benchmarks.collectives import job_on, workers_of
from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.emulation.interfaces import TcpSettings
from testbed.measure import pinned_to_edges
from topologies.errors import RingroadError
from topologies.model import Edge, EdgeProperties, Link, Site, Wan
from topologies.wanfile import load_wan

SHORTEST = ControllerSettings(policy="shortest")
ENDS = ("near", "far")
SAMPLE_S = 0.1
DATAGRAM_BYTES, UDP_HEADERS_BYTES = 8192, 8 + 20 + 14
"""Of UDP, IPv4 and Ethernet."""


def ring(asked: argparse.Namespace) -> dict[str, Any]:
    """AllGathers back to back over shortest paths: when each began and ended, and when the testbed was up."""
    wan = _same_everywhere(_wan(asked.wan), asked)
    collectives: list[dict[str, Any]] = []

    def keep(event: dict[str, Any]) -> None:
        if event["event"] == "collective":
            _mark(asked.file.parent)
            collectives.append(event)

    began_at = time.monotonic()
    tcp = TcpSettings(congestion_control=asked.control)
    with Testbed(wan, controller=SHORTEST, tcp=tcp) as bed, workers_of(bed) as workers:
        workers.start(job_on(bed, asked.size, collectives=asked.count, warmup=asked.warmup))
        _mark(asked.file.parent)
        workers.run(keep)
        routes = bed.controller.view().routes
    return {
        "began_at": began_at,
        "collectives": [[each["start"], each["end"]] for each in collectives],
        "dcs": list(wan.dcs),
        "hops": {f"{a} {b}": len(path) - 1 for (a, b), path in routes.items()},
        "sharing": _sharing(wan.dcs, routes),
    }


def _mark(folder: Path) -> None:
    """Leave an empty file named after the time here; when it was made, on the clock of the machine, is its ctime."""
    (folder / f"at-{time.monotonic():.6f}").touch()


def _sharing(order: Sequence[str], routes: Mapping[Edge, Sequence[str]]) -> int:
    """How many edges of the ring cross the link that most of them cross, the same way."""
    ring_edges = zip(order, [*order[1:], order[0]], strict=True)
    return max(Counter(edge for pair in ring_edges for edge in pairwise(routes[pair])).values())


def ping(asked: argparse.Namespace) -> dict[str, Any]:
    """Round trips over one link, in seconds; how many were sent, and how many never came back."""
    with _one_link(asked) as bed, pinned_to_edges(bed):
        target = bed.dc(ENDS[1]).ip
        command = ["ping", "-n", "-i", "0.01", "-c", str(asked.count), target]
        said = bed.dc(ENDS[0]).run(command, timeout_s=60 + asked.count).stdout
    times = [float(found) / 1e3 for found in re.findall(r"time=([\d.]+) ms", said)]
    return {"sent": asked.count, "round_trips_s": times}


def flow(asked: argparse.Namespace) -> dict[str, Any]:
    """One TCP flow over one link: its window (bytes) every 0.1 s, what was sent again, and what the queue may hold."""
    with _one_link(asked, TcpSettings(congestion_control=asked.control)) as bed, pinned_to_edges(bed):
        server = bed.dc(ENDS[1]).popen(["iperf3", "--server", "--one-off"])
        time.sleep(1.0)
        command = ["iperf3", "--client", bed.dc(ENDS[1]).ip, "--time", str(asked.seconds), "--json"]
        said = bed.dc(ENDS[0]).run([*command, "--interval", str(SAMPLE_S)], timeout_s=60 + asked.seconds).stdout
        server.wait()
    found = json.loads(said)
    if "error" in found:
        raise RingroadError(f"iperf3: {found['error']}")
    streams = [interval["streams"][0] for interval in found["intervals"]]
    return {
        "ends_s": [each["end"] for each in streams],
        "windows_bytes": [each["snd_cwnd"] for each in streams],
        "retransmits": [each["retransmits"] for each in streams],
        "segment_bytes": found["start"]["tcp_mss_default"],
        "bytes_received": found["end"]["sum_received"]["bytes"],
        "seconds": found["end"]["sum_received"]["seconds"],
    }


def offered(asked: argparse.Namespace) -> dict[str, Any]:
    """UDP over one link, `--excess` times what it carries: bit/s that arrived, headers included."""
    with _one_link(asked) as bed, pinned_to_edges(bed):
        server = bed.dc(ENDS[1]).popen(["iperf3", "--server", "--one-off"])
        time.sleep(1.0)
        command = ["iperf3", "--client", bed.dc(ENDS[1]).ip, "--udp", "--bitrate", f"{asked.rate * asked.excess:.0f}"]
        command += ["--length", str(DATAGRAM_BYTES), "--time", str(asked.seconds), "--omit", "1", "--json"]
        said = bed.dc(ENDS[0]).run(command, timeout_s=60 + asked.seconds).stdout
        server.wait()
    found = json.loads(said)
    if "error" in found:
        raise RingroadError(f"iperf3: {found['error']}")
    payload_bps = found["end"]["sum_received"]["bits_per_second"]
    return {"arrived_bps": payload_bps * (DATAGRAM_BYTES + UDP_HEADERS_BYTES) / DATAGRAM_BYTES}


def _wan(name: str) -> Wan:
    """A built-in WAN, or with `mesh:N` one of N sites that are all joined to each other."""
    kind, _, count = name.partition(":")
    if kind != "mesh":
        return load_wan(name)
    sites = [f"dc{number}" for number in range(int(count))]
    links = (Link(a, b, EdgeProperties(1e9), EdgeProperties(1e9)) for a, b in combinations(sites, 2))
    return Wan("mesh", tuple(map(Site, sites)), tuple(links))


def _properties(asked: argparse.Namespace) -> EdgeProperties:
    return EdgeProperties(asked.rate, asked.delay, asked.jitter, asked.loss)


def _same_everywhere(wan: Wan, asked: argparse.Namespace) -> Wan:
    """The WAN with what was asked for on all its links."""
    return wan.with_properties(dict.fromkeys(wan.edges, _properties(asked)))


def _one_link(asked: argparse.Namespace, tcp: TcpSettings = TcpSettings()) -> Testbed:  # noqa: B008 (frozen)
    near, far = ENDS
    link = Link(near, far, _properties(asked), _properties(asked))
    return Testbed(Wan("pair", (Site(near), Site(far)), (link,)), controller=None, tcp=tcp)


MEASUREMENTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "ring": ring,
    "ping": ping,
    "flow": flow,
    "offered": offered,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onkernel", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("measurement", choices=MEASUREMENTS)
    parser.add_argument("--wan", default="mesh4")
    parser.add_argument("--rate", type=float, default=100e6, help="bit/s of every link")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds, each way")
    parser.add_argument("--jitter", type=float, default=0.0, help="seconds")
    parser.add_argument("--loss", type=float, default=0.0, help="probability")
    parser.add_argument("--size", type=int, default=8 * 2**20, help="bytes that each DC contributes")
    parser.add_argument("--count", type=int, default=2, help="collectives, or pings")
    parser.add_argument("--warmup", type=int, default=1, help="collectives that do not count")
    parser.add_argument("--seconds", type=int, default=60, help="of the flow")
    parser.add_argument("--excess", type=float, default=1.2, help="times the rate that is offered")
    parser.add_argument("--control", default="cubic", help="congestion control")
    return parser


if __name__ == "__main__":
    options = _parser().parse_args()
    options.file.write_text(json.dumps(MEASUREMENTS[options.measurement](options)))
