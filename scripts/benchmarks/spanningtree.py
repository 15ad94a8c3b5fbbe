"""What people have today, on the same testbed and by the same probes: Ryu's spanning tree, after a link goes down."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figure import Figure, Reach, figure
from testbed.bed import Testbed
from testbed.emulation.openvswitch import controller_commands, vsctl
from testbed.emulation.tap import Taps
from testbed.measure_flows import probe_flow
from topologies import RingroadError
from topologies.model import EdgeProperties, Link, Site, Wan

PROGRAM = Path(__file__).with_name("spanningtreeswitch.py")
TRIALS = 2
"""Each takes a minute: the standard's timers say so."""
START_WITHIN_S = 20.0
TREE_WITHIN_S = 60.0
REPAIRED_WITHIN_S = 75.0
AFTER_S = 1.0
PAIR = ("b", "c")
"""With the bridge of least number, a, as the root, b–c is the link that is not in the tree: data goes by a."""


def link_down() -> Iterator[Figure]:
    """Ryu's simple_switch_stp_13 on three sites: a link of the tree goes down; how long until data flows again?"""
    gaps_s = [_gap_s() for _ in range(TRIALS)]
    against = f"{TRIALS} trials on a triangle without load, 10 ms probes, default timers; longest"
    yield figure("peer: Ryu simple_switch_stp_13, link down, gap", max(gaps_s) * 1e3, "ms", against, Reach())


def triangle() -> Wan:
    """Three sites."""
    rate = EdgeProperties(100e6)
    return Wan("triangle", tuple(map(Site, "abc")), tuple(Link(a, b, rate, rate) for a, b in ("ab", "ac", "bc")))


def _gap_s() -> float:
    with (
        Testbed(triangle(), controller=None) as bed,
        _spanning_tree(bed),
        _learned(bed),
        probe_flow(bed, PAIR, every_s=0.01) as flow,
        Taps({PAIR[1]: bed.plan.sites[PAIR[1]].host_port}, flow.port) as taps,
    ):
        _wait_for_data(taps, time.monotonic(), TREE_WITHIN_S)
        time.sleep(AFTER_S)
        failed_at = time.monotonic()
        bed.fail(("a", PAIR[0]))
        _wait_for_data(taps, failed_at + AFTER_S, REPAIRED_WITHIN_S)
        time.sleep(AFTER_S)
        return flow.finish().longest_gap_s(failed_at, time.monotonic())


@contextmanager
def _spanning_tree(bed: Testbed) -> Iterator[None]:
    """The app, and every switch of the testbed on its way to it."""
    with (bed.log_folder / "spanning-tree.log").open("wb") as log:
        app = subprocess.Popen(
            [sys.executable, str(PROGRAM), "0"], stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL
        )
    assert app.stdout is not None
    try:
        ready, _, _ = select.select([app.stdout], [], [], START_WITHIN_S)
        words = app.stdout.readline().split() if ready else []
        if words[:1] != [b"ready"]:
            raise RingroadError("the app of the spanning tree does not start")
        vsctl(controller_commands([site.switch for site in bed.plan.sites.values()], int(words[1])))
        yield
    finally:
        app.kill()
        app.wait()
        app.stdout.close()


@contextmanager
def _learned(bed: Testbed) -> Iterator[None]:
    """Both hosts of the pair talk, so that switches learn where they are, as they do in practice."""
    ping = bed.site(PAIR[1]).popen(["ping", "-q", "-i", "0.2", bed.site(PAIR[0]).ip])
    try:
        yield
    finally:
        ping.kill()
        ping.wait()


def _wait_for_data(taps: Taps[str], since: float, timeout_s: float) -> None:
    if taps.first_elsewhere("", since, timeout_s) is None:
        raise RingroadError(f"the spanning tree lets nothing through within {timeout_s:g} s")
