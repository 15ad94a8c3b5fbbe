"""Random sparse WANs, drawn from a seed: what rings and schedules are tested and benchmarked on. Pure."""

from __future__ import annotations

import math
import random

import networkx as nx

from workers.network import Network, network_of


def sparse_network(dcs: int, seed: int, transit: int = 0, neighbours: int = 3, delays: bool = False) -> Network:
    """Sites in a square, each linked to its nearest ones, 20–100 Mbit/s per direction, shortest routes by length."""
    draw = random.Random(seed)
    places = [(draw.random(), draw.random()) for _ in range(dcs + transit)]
    graph = nx.Graph()

    def length(a: int, b: int) -> float:
        return math.dist(places[a], places[b])

    for site in range(1, len(places)):
        nearest = min(range(site), key=lambda other: length(site, other))
        graph.add_edge(site, nearest, length=length(site, nearest))
    for site in range(len(places)):
        for other in sorted(range(len(places)), key=lambda other: length(site, other))[1 : neighbours + 1]:
            graph.add_edge(site, other, length=length(site, other))
    both = [edge for a, b in graph.edges for edge in ((a, b), (b, a))]
    capacities = {(str(a), str(b)): draw.uniform(20e6, 100e6) for a, b in both}
    delays_s = {(str(a), str(b)): 0.05 * length(a, b) for a, b in both} if delays else None
    paths = dict(nx.all_pairs_dijkstra_path(graph, weight="length"))
    routes = {(str(a), str(b)): [str(site) for site in paths[a][b]] for a in range(dcs) for b in range(dcs) if a != b}
    return network_of(capacities, routes, [str(rank) for rank in range(dcs)], delays_s)
