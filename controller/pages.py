"""What each path of the read-only HTTP answers: the engine's state as JSON. Knows nothing of HTTP.

Large answers come in pieces, so that whoever writes them can let others work in between; the state is a value, so all
pieces are of one moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from controller.engine import Engine
from controller.state import State

PAIRS_PER_PIECE = 100


def health(engine: Engine, status: Mapping[str, Any]) -> dict[str, Any]:
    """`status` as over the socket, and in a word: `ok`, `starting`, or `degraded` (a switch or a rule is missing)."""
    word = "ok" if engine.state.ready else "degraded" if engine.state.started else "starting"
    return {"health": word, **status, "groups": engine.state.groups, "faults": engine.faults[-10:]}


def topology(engine: Engine) -> dict[str, Any]:
    """Sites with their switches, and directed links with what they carry."""
    state = engine.state
    wan, wiring = state.network.wan, state.network.wiring
    sites = [
        {
            "site": site.name,
            "dpid": wiring.dpids[site.name],
            "connected": site.name in state.connected,
            "host_port": wiring.hosts[site.name].port,
            "host_mac": wiring.hosts[site.name].mac,
        }
        for site in wan.sites
    ]
    edges = [
        {
            "from": edge[0],
            "to": edge[1],
            "port": wiring.ports[edge],
            "up": edge not in state.down,
            "delay_s": properties.delay_s,
            "capacity_known_bps": state.capacities_bps[edge],
            "capacity_true_bps": engine.true_capacities_bps.get(edge),
        }
        for edge, properties in wan.edges.items()
    ]
    return {"wan": wan.name, "sites": sites, "edges": edges}


def paths(engine: Engine) -> Iterator[str]:
    """For every pair its path, the paths that are installed for it, and whether it sends, is pinned, is confirmed."""
    state, active = engine.state, engine.state.active
    yield f'{{"policy": {json.dumps(engine.policy_name)}, "detours": {json.dumps(state.detouring)}, "pairs": ['
    piece: list[str] = []
    separator = "\n"
    for pair in state.wanted:
        piece.append(json.dumps(_path(state, pair, pair in active)))
        if len(piece) == PAIRS_PER_PIECE:
            yield separator + ",\n".join(piece)
            piece, separator = [], ",\n"
    if piece:
        yield separator + ",\n".join(piece)
    yield "\n]}\n"


def event_text(event: Mapping[str, Any]) -> str:
    """One server-sent event (HTML standard, 9.2), named as the event is."""
    return f"event: {event['event']}\ndata: {json.dumps(event)}\n\n"


def _path(state: State, pair: tuple[str, str], active: bool) -> dict[str, Any]:
    tunnel = state.wanted[pair]
    return {
        "pair": list(pair),
        "path": list(tunnel.route),
        "confirmed": state.confirmed.get(pair) == tunnel.tag,
        "active": active,
        "pinned": pair in state.pinned,
        "tunnels": [list(each.route) for each in state.tunnels[pair]],
    }
