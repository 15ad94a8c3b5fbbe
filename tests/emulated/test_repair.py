"""Links that die, loudly or in silence, and a controller that dies: what packets notice of it on a real network."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from arrivals import wait_for_packets
from switchrules import flows
from waiting import eventually
from wans import wan_of

from controller.client import EventStream
from controller.settings import ControllerSettings
from testbed.bed import Testbed
from testbed.measure_flows import NumberedFlow, result_of, start_flow

pytestmark = pytest.mark.emulated

WAN = wan_of({"ab": 50e6, "ac": 50e6, "bc": 50e6, "ad": 50e6, "bd": 50e6})
EVENT_WITHIN_S = 20.0
PAIR = ("a", "b")


@pytest.fixture(scope="module")
def module_bed() -> Iterator[Testbed]:
    with Testbed(WAN, controller=ControllerSettings(period_s=0.2)) as bed:
        yield bed


@pytest.fixture
def bed(module_bed: Testbed) -> Testbed:
    """As new: healed (and the controller knows), first rates, shortest paths."""
    module_bed.heal()
    eventually(lambda: not module_bed.controller.view().down)
    module_bed.reset()
    return module_bed


def _next(stream: EventStream, **fields: Any) -> dict[str, Any]:
    """The next event with these fields."""
    return next(e for e in stream.events(EVENT_WITHIN_S) if all(e.get(k) == v for k, v in fields.items()))


@contextmanager
def _packets(bed: Testbed, seconds: float = 2.0) -> Iterator[dict[str, NumberedFlow]]:
    """A packet a millisecond while the context lasts, and until all are sent; then what became of them."""
    receiver, sender = start_flow(bed, PAIR, "udp", round(seconds * 1000), 0.001)
    found: dict[str, NumberedFlow] = {}
    wait_for_packets(bed.site(PAIR[1]))
    yield found
    result_of(sender)
    found["flow"] = NumberedFlow(**result_of(receiver))


def _worker(bed: Testbed) -> int:
    watchdog = next(process.pid for process in bed.processes() if process.name == "controller")
    return int(Path(f"/proc/{watchdog}/task/{watchdog}/children").read_text().split()[0])


def test_a_switch_turns_to_a_detour_without_being_told(bed: Testbed):
    # The controller never hears of it in time: it is stopped.
    worker = _worker(bed)
    with _packets(bed) as packets:
        os.kill(worker, signal.SIGSTOP)
        bed.fail("a-b")
        time.sleep(0.5)  # A span, not a wait: so long the switch is on its own, while packets go on.
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)

    assert packets["flow"].sent - packets["flow"].lost > 1900
    assert packets["flow"].repeated == 0


def test_with_the_policy_that_never_moves_a_dead_link_loses_everything(bed: Testbed):
    bed.controller.reset("shortest")
    with _packets(bed, 1.0) as packets:
        bed.fail("a-b")

    assert packets["flow"].lost > 500


def test_after_the_detour_the_controller_moves_the_pair_and_nothing_is_lost_by_that(bed: Testbed):
    with bed.controller.subscribe() as events, _packets(bed) as packets:
        bed.fail("a-b")
        event = _next(events, event="reconfiguration", cause="port_status")

    assert {tuple(move["pair"]) for move in event["moves"]} >= {("a", "b"), ("b", "a")}
    assert packets["flow"].lost < 100


def test_a_link_that_lets_nothing_through_is_found_and_left(bed: Testbed):
    with bed.controller.subscribe() as events, _packets(bed) as packets:
        bed.blackhole("a-b")
        event = _next(events, event="reconfiguration", cause="blackhole")

    assert "a" in event["moves"][0]["pair"]
    assert 0 < packets["flow"].lost < 1500
    bed.heal("a-b")
    assert _next_up(bed)


def _next_up(bed: Testbed) -> bool:
    return eventually(lambda: not bed.controller.view().down)


def test_links_that_are_full_are_not_taken_for_dead(bed: Testbed):
    bed.controller.reset("shortest")
    for link in bed.wan.links:
        bed.shape(link, rate_bps=8e6)
    before = {status.edge: status.sent_bytes for status in bed.links()}
    with bed.controller.subscribe() as events:
        ends = [start_flow(bed, edge, "tcp", 50e6, 3.0) for edge in bed.wan.edges]
        with pytest.raises(TimeoutError):
            next(e for e in events.events(4.0) if e["event"] == "link")
    full = sum(status.sent_bytes - before[status.edge] > 3_000_000 for status in bed.links())
    for receiver, sender in ends:
        sender.kill()
        sender.wait()
        receiver.kill()
        receiver.wait()

    assert full == len(bed.wan.edges)


def test_a_controller_whose_worker_is_killed_adopts_what_switches_hold_and_no_packet_notices(bed: Testbed):
    bed.shape("a-b", rate_bps=5e6)
    eventually(lambda: bed.controller.view().routes[PAIR] == ("a", "c", "b"))
    bed.controller.wait_ready(EVENT_WITHIN_S)
    before, restarts = flows(bed), bed.controller.status().restarts

    with bed.controller.subscribe() as events, _packets(bed, 4.0) as packets:
        os.kill(_worker(bed), signal.SIGKILL)
        event = _next(events, event="restart")
        bed.controller.wait_ready(EVENT_WITHIN_S)
        after = flows(bed)

    assert event["cause"] == "killed by SIGKILL"
    assert bed.controller.status().restarts == restarts + 1
    assert (packets["flow"].lost, packets["flow"].late, packets["flow"].repeated) == (0, 0, 0)
    assert after == before
    assert bed.controller.view().routes[PAIR] == ("a", "c", "b")
    assert bed.controller.view().capacities_bps[PAIR] == 5e6


def test_a_worker_that_is_stuck_is_replaced_and_the_next_one_steers(bed: Testbed):
    with bed.controller.subscribe() as events, _packets(bed, 4.0) as packets:
        os.kill(_worker(bed), signal.SIGSTOP)
        event = _next(events, event="restart")
        bed.controller.wait_ready(EVENT_WITHIN_S)

    assert event["cause"].startswith("no sign of life")
    assert packets["flow"].lost == 0
    bed.shape("a-b", rate_bps=5e6)
    eventually(lambda: bed.controller.view().routes[PAIR] != PAIR)


def test_rules_that_were_tampered_with_are_put_right_by_the_next_controller(bed: Testbed):
    bed.controller.wait_ready(EVENT_WITHIN_S)
    before = flows(bed)
    switch = bed.plan.sites["c"].switch
    ofctl = ["ovs-ofctl", "-O", "OpenFlow13"]
    stranger = "cookie=0x5209000000000000,priority=300,ip,nw_src=10.0.0.9,actions=drop"
    subprocess.run([*ofctl, "add-flow", switch, stranger], check=True, timeout=20)
    subprocess.run([*ofctl, "add-group", switch, "group_id=0x52770001,type=indirect,bucket=output:1"], check=True)
    some = next(line for line in before if line.startswith("c ") and "priority=100" in line)
    match = next(part for part in some.split() if part.startswith("priority=100"))
    subprocess.run([*ofctl, "--strict", "mod-flows", switch, f"{match},actions=drop"], check=True, timeout=20)
    assert flows(bed) != before

    os.kill(_worker(bed), signal.SIGKILL)

    eventually(lambda: flows(bed) == before)
    groups = subprocess.run([*ofctl, "dump-groups", switch], capture_output=True, text=True, check=True).stdout
    assert str(0x52770001) not in groups
