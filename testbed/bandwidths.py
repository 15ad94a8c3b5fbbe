"""Answers the ring agents when they ask what the network can carry: from what the controller knows, or from the truth.

`feed` is what the WAN controller believes (its capacity feed may lag), `oracle` what the kernel holds now. The matrix
has the narrowest link on the path that each pair takes now, one pair at a time: links that pairs share are not divided
in it. Links and routes stand beside it, for policies that know how to share; probes alone could not tell them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from socket import SHUT_RDWR, socket
from types import MappingProxyType
from typing import Any, NamedTuple

from topologies.model import Edge
from topologies.wire import WireError, listen, messages, send

Pair = tuple[str, str]
Rates = Mapping[Edge, float]
"""bit/s per directed edge."""


class Network(NamedTuple):
    """What is known of a network: rates, the sites that each pair's traffic passes, delays in s, and what will be.

    `future` holds (seconds from now, rates until the next one); only who knows the trace can fill it.
    """

    capacities: Rates
    routes: Mapping[Pair, Sequence[str]]
    delays_s: Mapping[Edge, float] = MappingProxyType({})
    future: Sequence[tuple[float, Rates]] = ()


MAX_CLIENTS = 64
"""At a time; more are turned away, so that descriptors and threads are left for the run."""


def bandwidth_matrix(network: Network, dcs: Sequence[str]) -> list[list[float]]:
    """Bit/s from each DC (row) to each other (column): the narrowest edge of the pair's path; 0 on the diagonal."""
    capacities, routes, *_ = network

    def between(source: str, target: str) -> float:
        path = routes.get((source, target), ())
        return min((capacities.get(edge, 0.0) for edge in itertools.pairwise(path)), default=0.0)

    return [[0.0 if a == b else between(a, b) for b in dcs] for a in dcs]


def described(network: Network, dcs: Sequence[str]) -> dict[str, Any]:
    """The reply to an agent: the matrix by rank, and the links, routes, delays and future that a policy may use."""
    known = set(dcs)
    routes = [[a, b, list(path)] for (a, b), path in network.routes.items() if a in known and b in known]
    return {
        "bandwidths": bandwidth_matrix(network, dcs),
        "links": _listed(network.capacities),
        "routes": routes,
        "delays": _listed(network.delays_s),
        "future": [[at_s, _listed(rates)] for at_s, rates in network.future],
    }


def _listed(values: Mapping[Edge, float]) -> list[list[Any]]:
    return [[a, b, value] for (a, b), value in values.items()]


class BandwidthService:
    """A Unix socket that answers `bandwidths` requests as long as the context lasts.

    `sources` gives, per name, a function that looks at the network when it is asked. It is called from the thread of
    the connection that asks, one at a time.
    """

    def __init__(self, path: Path, sources: Mapping[str, Callable[[], Network]]) -> None:
        self.path = path
        self._sources = sources
        self._lock = threading.Lock()
        self._open: set[socket] = set()

    def __enter__(self) -> BandwidthService:
        self._server = listen(self.path)
        self._thread = threading.Thread(target=self._accept, name="bandwidths", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._server, *self._open):
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)
            connection.close()
        self._thread.join(timeout=5)
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            if len(self._open) >= MAX_CLIENTS:
                connection.close()
                continue
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="bandwidths", daemon=True).start()

    def _serve(self, connection: socket) -> None:
        with suppress(WireError, OSError), connection:
            for message in messages(connection):
                send(connection, self._answer(message))
        self._open.discard(connection)

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        source = self._sources.get(str(message.get("source")))
        if message.get("op") != "bandwidths" or source is None:
            return {"error": f"ask for op bandwidths with a source of {', '.join(self._sources)}"}
        try:
            with self._lock:
                return described(Network(*source()), message["dcs"])
        except (WireError, KeyError, TypeError) as error:
            return {"error": f"the network cannot be asked: {error}"}
