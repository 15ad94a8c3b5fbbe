"""How long a collective will take, before anything runs: the static arm's ring over fixed paths. Pure.

An estimate for progress bars, timeouts and checks; results never come from here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import networkx

from controller.tunnels import edge_lengths
from testbed.dynamics.timeline import capacities, timeline
from testbed.dynamics.traces import Change
from topologies.model import Wan
from workers.limits import ring_limit_s


def expected_collective_s(wan: Wan, changes: Sequence[Change], size_bytes: int, over_s: float) -> float:
    """Seconds that an AllGather of `size_bytes` per DC takes on average, the DCs' ring in the listed order.

    Paths are the controller's shortest; `changes` are those of the first `over_s` seconds, all of which count equally.
    """
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from((a, b, length) for (a, b), length in edge_lengths(wan).items())
    routes = {(a, b): networkx.shortest_path(graph, a, b, weight="weight") for a in wan.dcs for b in wan.dcs if a != b}
    segments = capacities(wan, timeline(wan, changes))
    ends = [*(at_s for at_s, _ in segments[1:]), over_s]
    done = 0.0
    for (begin_s, rates), end_s in zip(segments, ends, strict=True):
        done += (end_s - begin_s) / ring_limit_s(rates, wan.dcs, routes, size_bytes)
    return over_s / done if done > 0 else math.inf
