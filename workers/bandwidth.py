"""What each pair of ranks can carry: measured by `probe`, or told by the runner (`feed`, `oracle`).

A probe sees one pair of paths at a time. What it cannot see: links that several ring edges will share (it then
over-predicts), anything shorter than the probe, and what the network will be when the ring runs. Probes move real
bytes and take real time; the agent charges both.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch.distributed import ProcessGroupGloo

from topologies import wire
from workers.collectives import tag
from workers.job import Probe, Source
from workers.policies.view import Matrix
from workers.tournament import partners


def probe(group: ProcessGroupGloo, size: Probe, epoch: int, sequence: int) -> list[float]:
    """Bit/s from every rank to this one, by rank (0 for itself). All ranks of `group` call it together.

    In each round of a tournament a rank exchanges a lead and a body with one partner, both directions at once; the
    receiver times the body alone, from the end of the lead. Moves (n−1)·(lead + body) bytes per rank and direction.
    RuntimeError when a peer is gone.
    """
    rank, lead, body = group.rank(), tag(epoch, sequence, 0), tag(epoch, sequence, 1)
    lead_out, lead_in = (torch.zeros(size.lead_bytes, dtype=torch.uint8) for _ in range(2))
    body_out, body_in = (torch.zeros(size.body_bytes, dtype=torch.uint8) for _ in range(2))
    rates = [0.0] * group.size()
    for round_partners in partners(group.size()):
        partner = round_partners[rank]
        if partner is None:
            continue
        arriving = group.recv([lead_in], partner, lead), group.recv([body_in], partner, body)
        leaving = group.send([lead_out], partner, lead), group.send([body_out], partner, body)
        arriving[0].wait()
        begin = time.monotonic()
        arriving[1].wait()
        rates[partner] = 8 * size.body_bytes / max(time.monotonic() - begin, 1e-6)
        for work in leaving:
            work.wait()
    return rates


def told(source: Source, dcs: tuple[str, ...], socket_path: Path) -> Matrix:
    """What the runner says: `feed` is the WAN controller's knowledge, `oracle` the truth. WireError if it cannot."""
    with wire.Client(socket_path) as runner:
        reply = runner.ask("bandwidths", source=source, dcs=list(dcs))
    return tuple(tuple(float(bps) for bps in row) for row in reply["bandwidths"])
