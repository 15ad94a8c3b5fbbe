"""A control socket that speaks the live testbed's protocol with no testbed behind it, for tests of who listens to it.

What it is asked to change it writes down; what happens, the test says.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

from controller.tunnels import plan_tunnels
from testbed.live import protocol
from testbed.live.protocol import to_json
from topologies import wire
from topologies.wanfile import load_wan


def edge_state(wan, edge, **changed):
    """One direction as the testbed tells it; idle and up unless `changed` says otherwise."""
    rate = wan.edges[edge].rate_bps
    plain = {"link": wan.link(edge).name, "source": edge[0], "target": edge[1], "rate_bps": rate, "own_rate_bps": rate}
    rest = {"delay_s": 0.0, "jitter_s": 0.0, "loss": 0.0, "up": True, "blackholed": False}
    return protocol.EdgeState(**(plain | rest | {"carried_bps": 0.0, "backlog_bytes": 0, "drops": 0} | changed))


def snapshot(wan, **changed):
    """Every pair on its shortest path, the ring as listed, nothing has happened."""
    plain = {
        "protocol": protocol.PROTOCOL,
        "seq": 0,
        "now": time.monotonic(),
        "run_id": "test",
        "pid": 1,
        "started": "2026-01-02T03:04:05+00:00",
        "wan": wan.name,
        "sites": tuple(protocol.SiteInfo(s.name, s.kind, s.latitude, s.longitude) for s in wan.sites),
        "wan_links": tuple(protocol.LinkInfo(link.name, link.a, link.b) for link in wan.links),
        "links": tuple(edge_state(wan, edge) for edge in wan.edges),
        "routes": tuple(
            protocol.Route(*pair, each[0].route, True) for pair, each in plan_tunnels(wan, 1).tunnels.items()
        ),
        "ring": protocol.Ring(wan.dcs, 0, False),
        "control": protocol.Control("joint", "widest", 0.5, 4),
        "workers": protocol.Workers("running", wan.dcs, (), 2**18),
        "trace": protocol.TraceState(False),
        "collectives": (),
        "log": (),
    }
    return protocol.Snapshot(**(plain | changed))


class ControlSocket:
    """Listens at `path` while the context lasts. `tell` sends an event to all who subscribed."""

    def __init__(self, path: Path, wan_name: str = "mesh4") -> None:
        self.path, self.wan = path, load_wan(wan_name)
        self.asked: list[dict] = []
        self.refusal: dict | None = None
        self._seq = 0
        self._lock = threading.Lock()
        self._listening: list[socket.socket] = []
        self._connections: list[socket.socket] = []

    def tell(self, kind, text="", **fields):
        """One event, now."""
        return self.tell_at(time.monotonic(), kind, text, **fields)

    def tell_at(self, at, kind, text="", **fields):
        """One event, as of `at`."""
        with self._lock:
            self._seq += 1
            event = to_json(kind(seq=self._seq, at=at, text=text, **fields))
            for connection in self._listening:
                wire.send(connection, event)
        return event

    def cut_off(self):
        """Whoever listens is taken for too slow."""
        with self._lock:
            for connection in self._listening:
                connection.shutdown(socket.SHUT_RDWR)
            self._listening.clear()

    def collective(self, time_s=0.1, limit_s=0.05, arm="joint"):
        """A collective ends now."""
        now, dcs = time.monotonic(), self.wan.dcs
        done = protocol.Collective(self._seq + 1, arm, now - time_s, now, time_s, limit_s, 0.0, dcs, 2**18, True)
        self.tell(protocol.CollectiveEvent, f"collective {done.number}", collective=done)

    def __enter__(self):
        self._server = wire.listen(self.path)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._connections:
            connection.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            for request in wire.messages(connection):
                with self._lock:
                    if request["op"] == "subscribe":
                        wire.send(connection, to_json(snapshot(self.wan, seq=self._seq)))
                        self._listening.append(connection)
                    elif self.refusal:
                        wire.send(connection, {"refused": self.refusal})
                    else:
                        self.asked.append(request)
                        wire.send(connection, {"did": "as asked", "at": time.monotonic(), "targets": []})
        except (wire.WireError, OSError):
            return
