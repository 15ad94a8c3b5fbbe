"""Figures of the live testbed: how soon a verb acts, how soon a WAN is up and down, and that nothing leaks."""

from __future__ import annotations

import json
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Reach, figure, figures_of, percentile
from testbed.live import Client
from testbed.live.network import MAX_REMEMBERED
from topologies import InputError, RingroadError

RINGROAD = [sys.executable, "-m", "testbed.cli"]
LINK = "tokyo-oregon"
FAILURES = 20
CALLS = 9
REQUESTS = 10_000
WARM_UP = 5 * MAX_REMEMBERED + 1_000
"""One request in five changes a capacity: by then the testbed remembers as many changes as it ever does."""
PER_CONNECTION = 10
LINK_CHANGES, NEW_LINK, LOWER_UP = 1, 16, 1 << 16
"""RTMGRP_LINK, RTM_NEWLINK and IFF_LOWER_UP of linux/rtnetlink.h and linux/if.h."""


def measure(say: Callable[[str], None]) -> Iterator[Figure]:
    """The live testbed: from a verb to the kernel, up and down, ten thousand requests."""
    yield from figures_of((changes, up_and_down, leaks), say)


@contextmanager
def live(*arguments: str) -> Iterator[dict[str, Any]]:
    """A detached testbed; what `up` told of it, and how long `up` and, at the end, `down` took."""
    facts = {}
    began_at = time.monotonic()
    facts |= json.loads(_ringroad("up", *arguments, "--detach", "--json"))
    facts["up_s"] = time.monotonic() - began_at
    try:
        yield facts
    finally:
        began_at = time.monotonic()
        _ringroad("down")
        facts["down_s"] = time.monotonic() - began_at


def _ringroad(*arguments: str) -> str:
    done = subprocess.run([*RINGROAD, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RingroadError(f"ringroad {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def changes() -> Iterator[Figure]:
    """A link failed again and again while workers run: when does the kernel say so, what does the whole verb take?"""
    with live("mesh4", "--workers", "--every", "500ms"), Client() as testbed, _Carrier(testbed) as carrier:
        took_ms = []
        for _ in range(FAILURES):
            asked_at = time.monotonic()
            testbed.fail(LINK)
            took_ms.append((carrier.gone_at() - asked_at) * 1e3)
            testbed.heal(LINK)
            carrier.back()
        whole_s = [_timed(verb, "tokyo", "oregon") for _ in range(CALLS) for verb in ("fail", "heal")]
        status_s = [_timed("status") for _ in range(CALLS)]
    against = f"{FAILURES} times, request → RTM_NEWLINK without a carrier"
    yield figure(
        "fail, request → link down in the kernel, p95", percentile(took_ms, 0.95), "ms", against, Reach(at_most=50)
    )
    calls = f"{CALLS} calls of each, the start of Python included"
    yield figure("ringroad fail and heal, p95", percentile(whole_s, 0.95), "s", calls, Reach(at_most=0.5))
    yield figure("ringroad status, p95", percentile(status_s, 0.95), "s", calls, Reach(at_most=0.5))


def _timed(*arguments: str) -> float:
    began_at = time.monotonic()
    _ringroad(*arguments)
    return time.monotonic() - began_at


def up_and_down() -> Iterator[Figure]:
    """b4 up and down, three times."""
    ups, downs = [], []
    for _ in range(3):
        with live("b4") as facts:
            pass
        ups.append(facts["up_s"])
        downs.append(facts["down_s"])
    yield figure("ringroad up b4 --detach, median of 3", statistics.median(ups), "s", "start of it", Reach(at_most=6))
    yield figure("ringroad down, b4, median of 3", statistics.median(downs), "s", "start of it", Reach(at_most=4))


def leaks() -> Iterator[Figure]:
    """Ten thousand requests, right and wrong ones, over a thousand connections."""
    with live("mesh4") as facts:
        _ask(WARM_UP)
        before = _held(facts["pid"])
        began_at = time.monotonic()
        _ask(REQUESTS)
        took_s = time.monotonic() - began_at
        time.sleep(1)  # The last connections are being closed.
        after = _held(facts["pid"])
    more = {name: after[name] - before[name] for name in before}
    against = f"after {WARM_UP:,} requests"
    none = Reach(at_most=0)
    yield figure("10,000 requests, descriptors more", more["descriptors"], "", against, none)
    yield figure("10,000 requests, threads more", more["threads"], "", against, none)
    yield figure("10,000 requests, memory more", more["memory_kib"] / 1024, "MiB", against, Reach(at_most=2))
    yield figure("10,000 requests, each", took_s / REQUESTS * 1e3, "ms", "one client at a time", Reach())


def _ask(count: int) -> None:
    for begin in range(0, count, PER_CONNECTION):
        with Client() as testbed:
            for number in range(begin, begin + PER_CONNECTION):
                _ask_one(testbed, number)


def _ask_one(testbed: Client, number: int) -> None:
    match number % 5:
        case 0:
            testbed.names()
        case 1:
            testbed.where(link=LINK)
        case 2:
            testbed.shape(LINK, rate_bps=50e6 + number)
        case 3 if number % 10 == 3:
            testbed.snapshot()
        case _:
            try:
                testbed.fail(f"{LINK}x")
            except InputError:
                return


def _held(pid: int) -> dict[str, int]:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "threads": int(status["Threads"]),
        "memory_kib": int(status["VmRSS"].split()[0]),
    }


class _Carrier:
    """Listens to the kernel's news of one interface, as long as the context lasts."""

    def __init__(self, testbed: Client) -> None:
        self._index = socket.if_nametoindex(str(testbed.where(link=LINK).interface))
        self._news: list[tuple[float, bool]] = []
        self._changed = threading.Condition()

    def __enter__(self) -> _Carrier:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, LINK_CHANGES))
        threading.Thread(target=self._listen, name="carrier", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def gone_at(self) -> float:
        """When the carrier was first told to be gone since it was last there; waits for that."""
        return self._wait(False)

    def back(self) -> None:
        """Wait until the carrier is there, and forget what was before."""
        self._wait(True)
        with self._changed:
            self._news.clear()

    def _wait(self, up: bool) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: any(state is up for _, state in self._news), timeout=10):
                raise RingroadError(f"the kernel did not tell of {LINK}")
            return next(at for at, state in self._news if state is up)

    def _listen(self) -> None:
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                return
            at = time.monotonic()
            while len(data) >= 32:
                length, kind = struct.unpack_from("=IH", data)
                index, flags = struct.unpack_from("=iI", data, 20)
                if kind == NEW_LINK and index == self._index:
                    with self._changed:
                        self._news.append((at, bool(flags & LOWER_UP)))
                        self._changed.notify_all()
                data = data[(length + 3) & ~3 :]
