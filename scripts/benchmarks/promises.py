"""What a choice of ring promises and what the ring then takes, on emulated links that several of its edges share.

On `prism` any ring crosses the ocean at least twice, and where it does it more often, edges share a link.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.collectives import workers_of
from benchmarks.figure import Figure, Reach, figure
from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.perf.rows import Row
from testbed.perf.session import measure, network_on, plan_for
from topologies.wanfile import load_wan
from workers.network import Order, bandwidths, ring_bps
from workers.perfjob import Perf
from workers.policies.bottleneck import best_ring as best_of_pairs
from workers.policies.linkrings import best_ring
from workers.policies.view import bottleneck_bps

SHARD_BYTES = 2 * 2**20
ITERATIONS = 3


def promised_and_kept() -> Iterator[Figure]:
    """AllGather of 2 MiB per rank on prism, by isolated bandwidths of pairs and by `shared`, against their promises."""
    wan = load_wan("prism")
    n = len(wan.dcs)
    with Testbed(wan, controller=ControllerSettings(policy="shortest")) as bed, workers_of(bed) as workers:
        network = network_on(bed)

        def took_s(order: Order) -> float:
            rows: list[Row] = []
            perf = Perf("all_gather", (n * SHARD_BYTES,), iterations=ITERATIONS)
            measure(bed, workers, plan_for(bed, perf, ",".join(wan.dcs[rank] for rank in order)), rows.append)
            return rows[0].ours.median_s

        pairs, listed = bandwidths(network, n), tuple(range(n))
        alone, shared = best_of_pairs(pairs, listed), best_ring(network, n, listed).order
        promised_s = {order: (n - 1) * 8 * SHARD_BYTES / ring_bps(network, order) for order in (alone, shared)}
        alone_s = (n - 1) * 8 * SHARD_BYTES / bottleneck_bps(pairs, alone)
        took = {order: took_s(order) for order in promised_s}
    against = "what the policy predicted"
    yield figure("ring by isolated bandwidths, prism, time", took[alone] / alone_s, "", against, Reach(at_least=1.5))
    yield figure("ring by `shared`, prism, time", took[shared] / promised_s[shared], "", against, Reach(at_most=1.05))
    label = "ring by `shared`, prism, against that by isolated bandwidths"
    yield figure(label, took[alone] / took[shared], "", "times as fast", Reach(at_least=1.5))
