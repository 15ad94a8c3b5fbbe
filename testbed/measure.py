"""Measuring the emulated WAN itself: what TCP gets through each directed edge, all at once, at the receiver.

The fidelity gate and the benchmarks share it, so that a run is judged by what the figures are made of.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from testbed.bed import Testbed
from testbed.emulation import openvswitch
from testbed.emulation.plan import HOST_PORT
from testbed.emulation.programs import require
from topologies import Edge, RingroadError

FIRST_PORT = 5201
OMITTED_S = 2.0
FLOWS = 4
CONGESTION_CONTROL = "cubic"
"""Links are loaded both ways, so acknowledgements wait behind data. A single flow, or BBR, which takes the shortest
round trip that it ever saw for the present one, keeps too little under way to fill a link then; a few of cubic fill it.
"""
SPARE_S = 15.0
"""How much longer than planned a transfer may take before it counts as stuck."""


@dataclass(frozen=True)
class Goodput:
    """What TCP delivered over one directed edge. `retransmits` are segments that were sent again."""

    edge: Edge
    rate_bps: float
    delivered_bps: float
    retransmits: int

    @property
    def ratio(self) -> float:
        """Delivered ÷ set rate. Headers alone cost 0.7 % of a jumbo frame."""
        return self.delivered_bps / self.rate_bps


def goodput(bed: Testbed, edges: Collection[Edge] | None = None, seconds: float = 3.0) -> dict[Edge, Goodput]:
    """TCP flows over each directed edge, all at the same time; bytes count at the receiver, after `OMITTED_S`.

    A link at 10 Mbit/s takes 20 seconds to be measured to a percent: a queue holds 3 % of what it carries in 8.
    Every pair must be routed over its own edge: see `pinned_to_edges`. RingroadError if a transfer fails or is stuck.
    """
    require("iperf3")
    edges = list(bed.wan.edges if edges is None else edges)
    rates = {status.edge: status.properties.rate_bps for status in bed.links()}
    servers: list[subprocess.Popen[bytes]] = []
    clients: dict[Edge, subprocess.Popen[bytes]] = {}
    try:
        for number, edge in enumerate(edges):
            servers.append(_start_server(bed, edge, FIRST_PORT + number))
        for server, edge in zip(servers, edges, strict=True):
            _wait_listening(server, edge)
        for number, edge in enumerate(edges):
            clients[edge] = _start_client(bed, edge, FIRST_PORT + number, seconds)
        deadline = time.monotonic() + seconds + OMITTED_S + SPARE_S
        return {edge: _result(edge, clients[edge], rates[edge], deadline) for edge in edges}
    finally:
        for process in (*servers, *clients.values()):
            process.kill()
            process.communicate()


@contextmanager
def pinned_to_edges(bed: Testbed, edges: Collection[Edge] | None = None) -> Iterator[None]:
    """As long as the context lasts each pair of neighbors talks over the link between them, both ways."""
    edges = list(bed.wan.edges if edges is None else edges)
    both = sorted({pair for a, b in edges for pair in ((a, b), (b, a))})
    if bed.controller is None:
        route_neighbors(bed)
        yield
        return
    for pair in both:
        bed.controller.pin(pair, pair)
    try:
        yield
    finally:
        for pair in both:
            bed.controller.unpin(pair)


def route_neighbors(bed: Testbed) -> None:
    """Give switches that have no controller the rules for neighbors to talk, each pair over its own link."""
    rules: dict[str, list[str]] = {site.switch: [] for site in bed.plan.sites.values()}
    for (source, target), port in bed.plan.ports.items():
        here, there = bed.plan.sites[source], bed.plan.sites[target]
        rules[here.switch].append(f"in_port={HOST_PORT},dl_dst={there.mac},actions=output:{port.number}")
        rules[here.switch].append(f"in_port={port.number},dl_dst={here.mac},actions=output:{HOST_PORT}")
    for switch, lines in rules.items():
        with tempfile.NamedTemporaryFile("w", dir=bed.state) as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            openvswitch.run(["ovs-ofctl", "-O", openvswitch.PROTOCOL, "add-flows", switch, file.name])


def _start_server(bed: Testbed, edge: Edge, port: int) -> subprocess.Popen[bytes]:
    command = ["iperf3", "--server", "--one-off", "--port", str(port), "--forceflush", "--interval", "0"]
    return bed.site(edge[1]).popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _wait_listening(server: subprocess.Popen[bytes], edge: Edge) -> None:
    assert server.stdout is not None
    said = b""
    deadline = time.monotonic() + SPARE_S
    while b"listening" not in said:
        ready, _, _ = select.select([server.stdout], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(server.stdout.fileno(), 4096) if ready else b""
        if not chunk:
            raise RingroadError(f"iperf3 does not listen in {edge[1]}: {said.decode(errors='replace').strip()}")
        said += chunk


def _start_client(bed: Testbed, edge: Edge, port: int, seconds: float) -> subprocess.Popen[bytes]:
    command = ["iperf3", "--client", bed.site(edge[1]).ip, "--port", str(port), "--json", "--interval", "0"]
    command += ["--time", f"{seconds:g}", "--omit", f"{OMITTED_S:g}", "--connect-timeout", "5000"]
    command += ["--parallel", str(FLOWS), "--congestion", CONGESTION_CONTROL]
    return bed.site(edge[0]).popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _result(edge: Edge, client: subprocess.Popen[bytes], rate_bps: float, deadline: float) -> Goodput:
    where = f"{edge[0]} → {edge[1]}"
    try:
        output, _ = client.communicate(timeout=max(0.0, deadline - time.monotonic()))
        report: Mapping = json.loads(output)
    except subprocess.TimeoutExpired as error:
        raise RingroadError(f"a transfer {where} is stuck", "is the pair routed over this link?") from error
    except ValueError as error:
        raise RingroadError(f"iperf3 {where} said: {output.decode(errors='replace')[-300:]}") from error
    if "error" in report:
        raise RingroadError(f"iperf3 {where}: {report['error']}")
    received, sent = report["end"]["sum_received"], report["end"]["sum_sent"]
    return Goodput(edge, rate_bps, received["bits_per_second"], sent.get("retransmits", 0))
