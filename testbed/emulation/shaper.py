"""Keeps the ports of a run shaped as they are wanted: always from the full wanted state, in place, verified.

The one owner of what the kernel's queues hold. It is told properties by edge; it knows nothing of sites or routes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.emulation import qdisc as pure
from testbed.emulation.qdisc import QdiscTree, wanted_tree
from testbed.emulation.trafficcontrol import (
    BUCKET_CLASS,
    BUCKET_HANDLE,
    IMPAIRMENT_HANDLE,
    ROOT,
    Qdisc,
    TrafficControl,
)
from topologies import Edge, EdgeProperties, RingroadError


@dataclass(frozen=True)
class QueueStatus:
    """What the kernel holds at the head of one directed edge, and what its queue has counted."""

    properties: EdgeProperties
    sent_bytes: int
    backlog_bytes: int
    drops: int


class Shaper:
    """Shapes the egress of interfaces of this network namespace. May be used from several threads."""

    def __init__(self, indexes: Mapping[Edge, int], netem: bool) -> None:
        """`indexes`: the kernel's interface index where each directed edge starts."""
        self._indexes = dict(indexes)
        self._netem = netem
        self._shaped: set[Edge] = set()
        self._lock = threading.Lock()
        self._control = TrafficControl()

    def apply(self, wanted: Mapping[Edge, EdgeProperties]) -> None:
        """Returns once the kernel holds all of it, checked edge by edge. RingroadError if it holds something else."""
        with self._lock:
            for edge, properties in wanted.items():
                tree = wanted_tree(properties, self._netem)
                held = self._apply_one(edge, tree)
                if not pure.holds(held, tree):
                    raise RingroadError(
                        f"the kernel holds {held.properties} on {edge[0]} → {edge[1]}, not {properties}",
                        "something else changes queues on this machine; look at: tc -s qdisc",
                    )

    def status(self) -> dict[Edge, QueueStatus]:
        """Of every edge that is shaped."""
        with self._lock:
            found = {(q.index, q.handle): q for q in self._control.all()}
            return {edge: self._status_of(edge, found) for edge in self._indexes if edge in self._shaped}

    def swallow(self, edge: Edge) -> None:
        """Nothing passes this edge any more; both ends stay up."""
        with self._lock:
            self._control.pass_again(self._indexes[edge])
            self._control.swallow(self._indexes[edge])

    def expedite(self, edge: Edge, destination_mac: bytes) -> None:
        """Packets to that address pass this edge without waiting in its queue, as network control does on real WANs."""
        with self._lock:
            self._control.expedite(self._indexes[edge], self._indexes[edge[::-1]], destination_mac)

    def pass_again(self, edge: Edge) -> None:
        """Undo `swallow`."""
        with self._lock:
            self._control.pass_again(self._indexes[edge])

    def close(self) -> None:
        """Close the netlink socket. The queues stay as long as their interfaces."""
        with self._lock:
            self._control.close()

    def _apply_one(self, edge: Edge, tree: QdiscTree) -> QdiscTree:
        index = self._indexes[edge]
        act = self._control.change if edge in self._shaped else self._control.add
        bucket = act(index, ROOT, BUCKET_HANDLE, "tbf", pure.encode_bucket(tree.bucket))
        netem = None
        if tree.impairment is not None:
            options = pure.encode_impairment(tree.impairment)
            netem = act(index, BUCKET_CLASS, IMPAIRMENT_HANDLE, "netem", options)
        self._shaped.add(edge)
        return _tree(bucket, netem)

    def _status_of(self, edge: Edge, found: Mapping[tuple[int, int], Qdisc]) -> QueueStatus:
        bucket = found.get((self._indexes[edge], BUCKET_HANDLE))
        if bucket is None or bucket.kind != "tbf":
            raise RingroadError(
                f"the queue of {edge[0]} → {edge[1]} is gone from the kernel",
                "something else removed it; start the testbed again",
            )
        netem = found.get((self._indexes[edge], IMPAIRMENT_HANDLE))
        properties = _tree(bucket, netem).properties
        return QueueStatus(properties, bucket.sent_bytes, bucket.backlog_bytes, bucket.drops)


def _tree(bucket: Qdisc, netem: Qdisc | None) -> QdiscTree:
    impairment = pure.decode_impairment(netem.options) if netem is not None else None
    return QdiscTree(pure.decode_bucket(bucket.options), impairment)
