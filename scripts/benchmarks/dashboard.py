"""Figures of the dashboard: how soon a page shows a change, and what an open page costs the emulation."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figure import Figure, Reach, figure, figures_of, worst_of
from benchmarks.live import live
from testbed.live import Client
from testbed.live.protocol import CollectiveEvent
from topologies import RingroadError

CHANGES = 20
LINK, DRAWN = "tokyo-oregon", "#map .link[data-link='tokyo-oregon']"
SETTLED_S = 5.0
PHASE_S = 10.0
PHASES = 8
"""With a page and without, by turns."""
BROWSER_NICENESS = 10
"""A person's browser mostly runs on another machine than the emulation; here it has to share this one's processors."""

WATCH = """
    window.seenAt = null;
    const link = document.querySelector(arguments[0]);
    new MutationObserver(() => requestAnimationFrame(() => { window.seenAt = Date.now(); }))
        .observe(link, { attributes: true, attributeFilter: ["class"] });
"""


def measure(say: Callable[[str], None]) -> Iterator[Figure]:
    """The dashboard: from a change to the page, and what an open page costs an AllGather."""
    yield from figures_of((changes_shown, cost), say)


def changes_shown() -> Iterator[Figure]:
    """A link failed and healed while workers run and a page is open: when does the page draw it?"""
    with live("mesh4", "--workers", "--every", "500ms"), Client() as testbed, open_page(testbed) as browser:
        browser.execute_script(WATCH, DRAWN)
        took_ms = []
        for number in range(CHANGES):
            browser.execute_script("window.seenAt = null")
            asked_at = time.time()
            if number % 2:
                testbed.heal(LINK)
            else:
                testbed.fail(LINK)
            took_ms.append(_seen_at(browser) - asked_at * 1e3)
            time.sleep(0.3)
    against = f"{CHANGES} times, request → next frame of a page in a browser on this machine"
    yield worst_of("change of a link → shown in the page, worst", took_ms, "ms", against, Reach(at_most=300))
    yield figure("change of a link → shown in the page, median", statistics.median(took_ms), "ms", against, Reach())


def _seen_at(browser: object, timeout_s: float = 10.0) -> float:
    deadline = time.monotonic() + timeout_s
    while (seen := browser.execute_script("return window.seenAt")) is None:  # type: ignore[attr-defined]
        if time.monotonic() > deadline:
            raise RingroadError("the page did not show a change", "open the dashboard and try it by hand")
        time.sleep(0.05)
    return float(seen)


def cost() -> Iterator[Figure]:
    """AllGathers back to back on mesh4, by turns with an open page and without: how much longer do they take?"""
    times: dict[bool, list[float]] = {True: [], False: []}
    with live("mesh4", "--workers", "--payload", "1MiB"), Client() as testbed:
        time.sleep(SETTLED_S)
        for phase in range(PHASES):
            if phase % 2:
                with open_page(testbed):
                    time.sleep(SETTLED_S)
                    times[True] += _collectives_s(testbed)
            else:
                times[False] += _collectives_s(testbed)
    ratio = statistics.mean(times[True]) / statistics.mean(times[False])
    against = f"mean of {len(times[True])} AllGathers of 1 MiB ÷ of {len(times[False])}; browser on this machine"
    yield figure("AllGather on mesh4 with an open page ÷ without", ratio, "", against, Reach(at_most=1.02))


def _collectives_s(testbed: Client) -> list[float]:
    """What collectives took during one phase."""
    until = time.monotonic() + PHASE_S
    taken = []
    with Client(testbed.path) as listener:
        _, events = listener.subscribe()
        for event in events:
            if event.at > until:
                break
            if isinstance(event, CollectiveEvent):
                taken.append(event.collective.time_s)
    return taken


@contextmanager
def open_page(testbed: Client) -> Iterator[object]:
    """The dashboard's process, and a browser with its page; both gone at the end."""
    from filming.browser import chromium

    command = [sys.executable, "-m", "testbed.live.web", "--socket", str(testbed.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            with chromium(1440, 900) as browser:
                for each in _family(browser.service.process.pid):
                    os.setpriority(os.PRIO_PROCESS, each, BROWSER_NICENESS)
                browser.get(address)
                time.sleep(1.0)
                yield browser
        finally:
            process.terminate()


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found
