"""Figures of the collectives: the ring against what links allow and against stock gloo; coming up and going down."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.figure import Figure, Reach, figure
from controller.settings import ControllerSettings
from testbed.bed import Testbed
from topologies.wanfile import load_wan
from workers.client import Event, WorkersClient, launch
from workers.job import Job, Rank

RATE_BPS = 100e6
SIZE_BYTES = 8 * 2**20
COLLECTIVES = 20
"""Of both implementations together, taking turns."""


@contextmanager
def workers_of(bed: Testbed) -> Iterator[WorkersClient]:
    """A launcher for this testbed, and a client of it; both end with the context."""
    socket = bed.state / "workers.sock"
    launcher = launch(socket, bed.log_folder / "workers.log")
    try:
        with WorkersClient(socket) as client:
            yield client
    finally:
        launcher.terminate()
        launcher.wait()
        socket.unlink(missing_ok=True)


def job_on(bed: Testbed, size_bytes: int, **fields: object) -> Job:
    """AllGathers over all DCs of this testbed."""
    ranks = tuple(Rank(dc, bed.dc(dc).netns_pid) for dc in bed.wan.dcs)
    return Job(ranks=ranks, size_bytes=size_bytes, log_folder=str(bed.log_folder.resolve()), **fields)  # type: ignore[arg-type]


def ring_against_limit_and_gloo() -> Iterator[Figure]:
    """AllGather of 8 MiB per rank on mesh4 at 100 Mbit/s, our ring and stock gloo in turn."""
    took_s: dict[str, list[float]] = {"ring": [], "gloo": []}
    names = tuple(took_s)

    def keep(event: Event) -> None:
        if event["event"] == "collective":
            took_s[names[event["index"] % len(names)]].append(event["end"] - event["start"])

    with (
        Testbed(load_wan("mesh4"), controller=ControllerSettings(policy="shortest")) as bed,
        workers_of(bed) as workers,
    ):
        for link in bed.wan.links:
            bed.shape(link, rate_bps=RATE_BPS)
        workers.start(job_on(bed, SIZE_BYTES, collectives=COLLECTIVES, warmup=2, implementations=names))
        workers.run(keep)
        least_s = (len(bed.wan.dcs) - 1) * SIZE_BYTES * 8 / RATE_BPS
    ring_s, gloo_s = statistics.median(took_s["ring"]), statistics.median(took_s["gloo"])
    yield figure("ring AllGather, mesh4, 8 MiB per rank", ring_s / least_s, "", "(n−1)·S ÷ rate", Reach(at_most=1.03))
    yield figure("ring AllGather against gloo's", ring_s / gloo_s, "", "stock gloo all_gather", Reach(at_most=1.0))


def up_and_down() -> Iterator[Figure]:
    """Six DCs from nothing to their first collective, and back to nothing."""
    first_at: list[float] = []

    def keep(event: Event) -> None:
        if event["event"] == "collective":
            first_at.append(event["start"])

    began_at = time.monotonic()
    with Testbed(load_wan("six")) as bed:
        with workers_of(bed) as workers:
            workers.start(job_on(bed, 4096, warmup=0))
            workers.run(keep)
        done_at = time.monotonic()
    down_s = time.monotonic() - done_at
    yield figure("Testbed up to first collective, six", first_at[0] - began_at, "s", "nothing", Reach(at_most=12))
    yield figure("Testbed down, six", down_s, "s", "nothing", Reach(at_most=4))
