"""An hour in front of the dashboard, told as fast as it can be read: neither the page nor its server grows."""

import time
from pathlib import Path

from controlsocket import ControlSocket, edge_state
from pages import dashboard
from waiting import eventually

from filming.browser import chromium, errors
from testbed.live import protocol

HOUR_S = 3600
AT_ONCE_S = 60
KEPT = """
const { collectives, log, marks, capacity } = ringroad.store;
const lengths = capacity.map((each) => each.length);
return { collectives: collectives.length, log: log.length, marks: marks.length, capacity: lengths };
"""
FULL_S = 2100
"""By then all that the page keeps, 990 capacities of a direction at most, has been told once."""


def _tell(control, at, number):
    """What one second of a busy testbed tells: loads, two collectives, now and then a change."""
    wan = control.wan
    rates = tuple(protocol.EdgeRate(a, b, 1e6 * (number % 90), number, number) for a, b in wan.edges)
    control.tell_at(at, protocol.RatesEvent, rates=rates)
    for part in (0.0, 0.5):
        done = protocol.Collective(number, "joint", at + part - 0.3, at + part, 0.3, 0.2, 0.0, wan.dcs, 2**18, True)
        control.tell_at(at + part, protocol.CollectiveEvent, "collective", collective=done)
    if number % 2 == 0:
        links = tuple(edge_state(wan, edge, rate_bps=1e6 * (20 + number % 70)) for edge in wan.edges)
        control.tell_at(at, protocol.LinkEvent, "the trace changes 12 directions", links=links)
    if number % 5 == 0:
        order = wan.dcs if number % 10 else wan.dcs[::-1]
        took = {"measure_s": 0.01, "decide_s": 0.01, "agree_s": 0.01, "predicted_gain": 0.1}
        ring = protocol.Ring(order, number, False)
        told = {"before": wan.dcs, "changed": True, "by_hand": False}
        control.tell_at(at, protocol.RingChangeEvent, "ring changed", ring=ring, **told, **took)


def _memory(driver, page):
    """Bytes of the page's heap after collecting garbage, its elements, and kB that the server holds."""
    heaps = []
    for _ in range(4):  # what one collection has let go of, the next may free
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        heaps.append(driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"])
    heap = min(heaps)
    elements = driver.execute_script("return document.getElementsByTagName('*').length")
    status = Path(f"/proc/{page.process.pid}/status").read_text()
    resident_kb = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    return heap, elements, resident_kb


def test_memory_is_bounded_on_both_sides_and_the_page_keeps_up(tmp_path):
    with (
        ControlSocket(tmp_path / "control.sock") as control,
        dashboard("testbed.live.web", "--socket", control.path) as page,
        chromium(1200, 800) as driver,
    ):
        driver.get(page.address)
        eventually(lambda: driver.execute_script("return document.body.dataset.state") == "live", 30)
        driver.execute_cdp_cmd("HeapProfiler.enable", {})
        began, measured = time.monotonic(), []
        for second in range(HOUR_S):
            _tell(control, began + second, second)
            if (second + 1) % AT_ONCE_S == 0:
                seen = f"return ringroad.store.collectives.at(-1)?.at >= {began + second}"
                eventually(lambda seen=seen: driver.execute_script(seen), 30)
            if second + 1 in (FULL_S, HOUR_S):
                measured.append(_memory(driver, page))
        kept = driver.execute_script(KEPT)
        console = errors(driver)

    (heap, elements, resident_kb), (heap_later, elements_later, resident_kb_later) = measured
    # what is kept is at most a tenth more than what may be; the heap beside it is the browser's own business
    assert kept["collectives"] <= 2640 and kept["log"] <= 275 and kept["marks"] <= 440
    assert max(kept["capacity"]) <= 990
    assert heap_later < 2 * heap
    assert elements_later < 1.1 * elements
    assert resident_kb_later < resident_kb + 20_000
    assert console == []
