"""What each pair of ranks can carry: measured by `probe`, or told by the runner (`feed`, `oracle`), with the links.

A probe sees one pair of paths at a time. What it cannot see: links that several ring edges will share (it then
over-predicts), anything shorter than the probe, and what the network will be when the ring runs. Two pairs of one
round that happen to share a link see their part of it. Probes move real bytes and take real time; the agent charges
both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed import ProcessGroupGloo, Work

from topologies import wire
from workers.collectives import tag
from workers.job import Probe, Source
from workers.network import Capacities, Matrix, Network, network_of
from workers.probing import partners, rate_bps


@dataclass(frozen=True)
class Known:
    """What pairs can carry, how old that is (None: as of now), and the network where the source knows links."""

    bandwidths: Matrix
    network: Network | None = None
    ages_s: Matrix | None = None


def probe(
    group: ProcessGroupGloo, size: Probe, epoch: int, sequence: int, among: Sequence[int] | None = None
) -> list[float]:
    """Bit/s from every rank of `among` (None: all) to this one, 0 for itself. All of `group` call it together.

    In each round of a tournament a rank meets one partner and sends it a few chunks, one direction after the other:
    acknowledgements that queue behind data of the other direction would halve what a probe sees. The receiver times
    the arrivals. Moves (n−1)·(lead + timed) chunks per rank and direction. RuntimeError when a peer is gone.
    """
    chunks = size.lead + size.timed
    outgoing = torch.zeros((chunks, size.chunk_bytes), dtype=torch.uint8)
    incoming = torch.empty_like(outgoing)
    first = tag(epoch, sequence, 0)
    ranks = list(range(group.size()) if among is None else among)
    rates = [0.0] * len(ranks)
    if group.rank() not in ranks:
        return rates
    mine = ranks.index(group.rank())

    def send(partner: int) -> None:
        for work in [group.send([outgoing[i]], ranks[partner], first + i) for i in range(chunks)]:
            work.wait()

    for round_partners in partners(len(ranks)):
        partner = round_partners[mine]
        if partner is None:
            continue
        arriving = [group.recv([incoming[i]], ranks[partner], first + i) for i in range(chunks)]
        if mine < partner:
            send(partner)
        arrivals_s = [_arrival_s(work) for work in arriving]
        rates[partner] = rate_bps(arrivals_s[size.lead - 1 :], size.chunk_bytes)
        if mine > partner:
            send(partner)
    return rates


def _arrival_s(work: Work) -> float:
    work.wait()
    return time.monotonic()


def told(source: Source, dcs: tuple[str, ...], socket_path: Path) -> Known:
    """What the runner says: `feed` is the WAN controller's knowledge, `oracle` the truth. WireError if it cannot.

    A runner that knows links and routes says those too.
    """
    with wire.Client(socket_path) as runner:
        reply = runner.ask("bandwidths", source=source, dcs=list(dcs))
    matrix = tuple(tuple(float(bps) for bps in row) for row in reply["bandwidths"])
    return Known(matrix, _network(reply, dcs) if "links" in reply else None)


def _network(reply: dict[str, Any], dcs: tuple[str, ...]) -> Network:
    def capacities(entries: list[list[Any]]) -> Capacities:
        return {(a, b): float(bps) for a, b, bps in entries}

    network = network_of(
        capacities(reply["links"]),
        {(a, b): tuple(path) for a, b, path in reply["routes"]},
        dcs,
        capacities(reply["delays"]) if reply.get("delays") else None,
    )
    future = tuple((float(at_s), capacities(entries)) for at_s, entries in reply.get("future", ()))
    return replace(network, future=future)
