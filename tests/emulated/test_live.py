"""One live testbed with workers, and every verb against it, as from another terminal."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually

from testbed.live import Client
from testbed.live.protocol import CollectiveEvent, FaultEvent, LinkEvent, ReconfigurationEvent
from topologies.errors import InputError, RingroadError

pytestmark = pytest.mark.emulated

RINGROAD = [sys.executable, "-m", "testbed.cli"]


def ringroad(*arguments, code=0, **options):
    """What a verb says on stdout; as JSON where `--json` is asked for."""
    given = {"capture_output": True, "text": True, "timeout": 60, "stdin": subprocess.DEVNULL} | options
    done = subprocess.run([*RINGROAD, *arguments], **given)
    assert done.returncode == code, done.stderr
    if code:
        return done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


@pytest.fixture(scope="module")
def live():
    """Up in the background, with workers; its facts. Taken down at the end, and then nothing is left."""
    arguments = ("up", "mesh4", "--workers", "--payload", "256KiB", "--every", "100ms", "--detach", "--json")
    facts = ringroad(*arguments)
    try:
        yield facts
    finally:
        took = ringroad("down", "--json")
    assert took["run_id"] == facts["run_id"]
    assert not Path(facts["socket"]).parent.exists()


@pytest.fixture
def testbed(live):
    """A client; what a test did to links is undone."""
    with Client() as client:
        yield client
        client.heal()


def carrier(live, source, target):
    """What the kernel says of the port of `source` to `target`."""
    with Client() as client:
        interface = client.where(link=(source, target)).interface
    try:
        return Path(f"/sys/class/net/{interface}/carrier").read_text().strip() == "1"
    except OSError:
        return False


def edge(testbed, source, target):
    return next(e for e in testbed.snapshot().links if (e.source, e.target) == (source, target))


def next_collectives(testbed, count=1):
    """The next that finish."""
    before = testbed.snapshot().collectives[-1:]
    number = before[0].number if before else 0
    return eventually(
        lambda: (new := [c for c in testbed.snapshot().collectives if c.number > number])[count - 1 :] and new
    )


def test_collectives_run_without_end_and_every_element_is_right(testbed):
    first, second, third = next_collectives(testbed, 3)[:3]
    assert (second.number, third.number) == (first.number + 1, first.number + 2)
    assert all(c.verified and 0 < c.limit_s <= c.time_s for c in (first, second, third))
    # 256 KiB to three others at 3 × 100 Mbit/s into each: 3 · 256 KiB · 8 / 3e8 bit/s = 21 ms
    assert first.limit_s == pytest.approx(3 * 256 * 1024 * 8 / 300e6, rel=0.01)


def test_a_link_fails_in_the_kernel_and_heals_as_any_terminal_says(live, testbed):
    assert ringroad("fail", "tokyo", "oregon") == "tokyo-oregon is down, both ways\n"
    assert not carrier(live, "tokyo", "oregon")
    assert not edge(testbed, "oregon", "tokyo").up
    healed = ringroad("heal", "tokyo-oregon", "--json")
    assert (healed["did"], healed["targets"]) == ("tokyo-oregon healed", ["tokyo-oregon"])
    assert carrier(live, "tokyo", "oregon")


def test_a_blackhole_keeps_the_carrier_and_heal_all_ends_everything(live, testbed):
    ringroad("blackhole", "frankfurt", "tokyo")
    assert carrier(live, "frankfurt", "tokyo")
    assert edge(testbed, "frankfurt", "tokyo").blackholed
    ringroad("fail", "tokyo", "virginia")
    assert ringroad("heal", "all") == "frankfurt-tokyo, tokyo-virginia healed\n"
    assert all(e.up and not e.blackholed for e in testbed.snapshot().links)


def test_a_rate_is_set_both_ways_or_one_way(testbed):
    ringroad("shape", "tokyo", "oregon", "--rate", "20mbit")
    assert edge(testbed, "tokyo", "oregon").rate_bps == edge(testbed, "oregon", "tokyo").rate_bps == 20e6
    ringroad("shape", "oregon", "tokyo", "--rate", "50mbit", "--one-way")
    assert edge(testbed, "tokyo", "oregon").rate_bps == 20e6
    assert edge(testbed, "oregon", "tokyo").rate_bps == 50e6
    testbed.shape("tokyo-oregon", rate_bps=100e6)


def test_a_dc_is_cut_off_and_joined_again_by_its_name(live, testbed):
    ringroad("isolate", "tokyo")
    down = {frozenset((e.source, e.target)) for e in testbed.snapshot().links if not e.up}
    assert down == {frozenset(("tokyo", other)) for other in ("frankfurt", "oregon", "virginia")}
    ringroad("heal", "tokyo")
    assert all(e.up for e in testbed.snapshot().links)
    next_collectives(testbed)


def test_a_link_that_flaps_goes_down_and_up_and_ends_up(testbed):
    with Client() as listener:
        _, events = listener.subscribe()
        ringroad("flap", "tokyo", "oregon", "--period", "200ms", "--for", "600ms")
        seen = []
        for event in events:
            if isinstance(event, LinkEvent):
                seen += [e.up for e in event.links if (e.source, e.target) == ("tokyo", "oregon")]
            if isinstance(event, FaultEvent) and "no more" in event.text:
                break
    assert seen == [False, True] * 3
    assert edge(testbed, "tokyo", "oregon").up


def test_a_worker_that_crashes_is_missed_and_comes_back(testbed):
    ringroad("crash", "tokyo")
    without = eventually(lambda: [c for c in testbed.snapshot().collectives[-1:] if "tokyo" not in c.order])
    assert sorted(without[0].order) == ["frankfurt", "oregon", "virginia"]
    assert testbed.snapshot().workers.crashed == ("tokyo",)
    assert "already" in ringroad("crash", "tokyo", code=1)
    ringroad("restart", "tokyo")
    eventually(lambda: [c for c in testbed.snapshot().collectives[-1:] if "tokyo" in c.order])
    assert testbed.snapshot().workers.crashed == ()


def test_one_worker_alone_waits_until_others_come_back(testbed):
    for dc in ("tokyo", "oregon", "virginia"):
        testbed.crash(dc)
    eventually(lambda: testbed.snapshot().workers.state == "waiting")
    testbed.restart("oregon")
    two = eventually(lambda: [c for c in testbed.snapshot().collectives[-1:] if len(c.order) == 2])
    assert sorted(two[0].order) == ["frankfurt", "oregon"]
    testbed.restart("tokyo")
    testbed.restart("virginia")
    eventually(lambda: [c for c in testbed.snapshot().collectives[-1:] if len(c.order) == 4])
    assert testbed.snapshot().workers.crashed == ()


def test_arms_switch_while_collectives_run(testbed):
    ringroad("shape", "frankfurt", "oregon", "--rate", "10mbit")
    before = next_collectives(testbed)[-1]
    said = ringroad("arm", "wan")
    assert said == "arm wan: paths by widest, the ring stays\n"
    # the pair leaves the link that carries a tenth of the others
    eventually(lambda: ("frankfurt", "oregon") in moved(testbed))
    ringroad("arm", "static")
    eventually(lambda: ("frankfurt", "oregon") not in moved(testbed))
    ringroad("arm", "ccl")
    # and so does the ring, which listed uses frankfurt → oregon
    eventually(lambda: ("frankfurt", "oregon") not in ring_edges(testbed.snapshot().ring.order))
    ringroad("arm", "joint")
    after = eventually(lambda: [c for c in testbed.snapshot().collectives[-1:] if c.arm == "joint"])
    assert after[-1].number > before.number and after[-1].verified
    ringroad("arm", "static")
    assert testbed.snapshot().ring.order == ("frankfurt", "oregon", "tokyo", "virginia")
    testbed.shape("frankfurt-oregon", rate_bps=100e6)


def moved(testbed):
    """Pairs of neighbors whose path is not the link between them."""
    return {(r.source, r.target) for r in testbed.snapshot().routes if len(r.path) > 2}


def ring_edges(order):
    return set(zip(order, order[1:] + order[:1], strict=True))


def test_the_agent_acts_as_often_as_it_is_told(testbed):
    assert "not in the arm static" in ringroad("reorder", "every", "2")
    ringroad("arm", "ccl")
    assert testbed.snapshot().control.reorder_every == 2
    ringroad("reorder", "never")
    assert testbed.snapshot().control.reorder_every == 0
    ringroad("reorder", "every", "4")
    ringroad("arm", "static")


def test_a_ring_is_pinned_and_given_back(testbed):
    order = ("tokyo", "frankfurt", "oregon", "virginia")
    ringroad("ring", ",".join(order))
    ran = eventually(
        lambda: [c for c in testbed.snapshot().collectives[-1:] if ring_edges(c.order) == ring_edges(order)]
    )
    assert ran[0].verified and testbed.snapshot().ring.pinned
    assert "did you mean 'tokyo'" in ringroad("ring", "tokio,frankfurt,oregon,virginia", code=2)
    assert "lacks virginia" in ringroad("ring", "tokyo,frankfurt,oregon", code=2)
    ringroad("ring", "auto")
    assert not testbed.snapshot().ring.pinned
    ringroad("arm", "static")


def test_a_trace_plays_and_stops(testbed, tmp_path):
    rows = tmp_path / "rates.csv"
    rows.write_text("time,link,rate\n0,tokyo-oregon,40mbit\n0.3,tokyo->oregon,30mbit\n")
    assert ringroad("trace", str(rows)) == "trace rates.csv plays\n"
    eventually(lambda: edge(testbed, "tokyo", "oregon").rate_bps == 30e6)
    assert edge(testbed, "oregon", "tokyo").rate_bps == 40e6
    assert testbed.snapshot().trace.playing
    ringroad("trace", "stop")
    assert not testbed.snapshot().trace.playing
    ringroad("trace", "start")
    ringroad("trace", "stop")
    testbed.shape("tokyo-oregon", rate_bps=100e6)


def test_t_wan_changes_and_routes_stay(testbed):
    routes = {(r.source, r.target): r.path for r in testbed.snapshot().routes}
    testbed.t_wan(0.25)
    after = testbed.snapshot()
    assert after.control.period_s == 0.25
    assert {(r.source, r.target): r.path for r in after.routes} == routes
    testbed.t_wan(0.5)


def test_a_command_runs_inside_a_dc_and_its_exit_code_is_kept(live):
    ping = ringroad("sh", "--json", "tokyo", "ping", "-c", "1", "-W", "5", "@oregon")
    assert ping["exit_code"] == 0 and "1 received" in ping["stdout"]
    assert "10.77." in ringroad("sh", "tokyo", "ip", "-4", "addr", "show", "eth0")
    ringroad("sh", "tokyo", "false", code=1)
    assert "did you mean 'tokyo'" in ringroad("sh", "tokio", "true", code=2)


def test_packets_of_a_link_are_captured_into_a_file(live, tmp_path):
    file = tmp_path / "out.pcap"
    told = ringroad("capture", "frankfurt", "oregon", "-w", str(file), "--for", "1s", "--json")
    # collectives of ten a second leave plenty: the listed ring uses this link
    assert told["packets"] > 10 and told["file"] == str(file)
    assert file.read_bytes()[:4] == bytes.fromhex("d4c3b2a1")
    piped = subprocess.run(
        [*RINGROAD, "capture", "frankfurt", "oregon", "-w", "-", "--for", "500ms"], capture_output=True, timeout=30
    )
    assert piped.stdout[:4] == bytes.fromhex("d4c3b2a1")


def test_status_says_it_all_in_words_and_in_json(testbed):
    next_collectives(testbed)
    said = ringroad("status")
    for part in ("mesh4: 4 DCs, 6 links", "arm static", "workers: running", "tokyo → oregon", "100 Mbit/s", "limit"):
        assert part in said
    plain = ringroad("status", "--json")
    assert len(plain["links"]) == 12 and len(plain["routes"]) == 12
    assert ringroad("status", "--routes").count("→") > said.count("→") - 5


def test_status_watches_until_it_is_told_to_stop(live):
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "60"}
    watching = subprocess.Popen([*RINGROAD, "status", "--watch"], stdout=subprocess.PIPE, env=environment)
    said = b""
    while said.count(b"mesh4: 4 DCs") < 2:
        more = os.read(watching.stdout.fileno(), 65536)
        assert more, said
        said += more
    watching.send_signal(signal.SIGINT)
    watching.stdout.close()
    assert watching.wait(10) == 130


SCENARIO = """
name: short
steps:
  - {at: 0s, say: Watch tokyo-oregon.}
  - {at: 0s, op: shape, link: tokyo-oregon, rate: 30mbit, say: It gets less.}
  - {at: 300ms, op: fail, link: [tokyo, oregon]}
  - {at: 600ms, op: heal}
  - {at: 600ms, op: shape, link: tokyo-oregon, rate: 100mbit}
"""


def test_a_scenario_is_played_at_its_times(testbed, tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    before = testbed.snapshot().seq
    played = ringroad("play", str(file), "--json")
    assert [step["did"] for step in played["steps"]] == [
        "",
        "tokyo-oregon: 30 Mbit/s",
        "tokyo-oregon is down, both ways",
        "tokyo-oregon healed",
        "tokyo-oregon: 100 Mbit/s",
    ]
    log = [entry for entry in testbed.snapshot().log if entry.seq > before and entry.kind == "fault"]
    assert log[1].at - log[0].at >= 0.25 and log[2].at - log[1].at >= 0.25


def test_a_scenario_that_names_what_is_not_there_does_nothing(testbed, tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.replace("[tokyo, oregon]", "tokyo-oregn").replace("op: heal}", "op: crash, dc: tokio}"))
    before = testbed.snapshot()
    said = ringroad("play", str(file), code=2)
    assert "did you mean 'tokyo-oregon'" in said and "did you mean 'tokyo'" in said
    assert f"{file}:6" in said and "steps[2]" in said
    assert [e.rate_bps for e in testbed.snapshot().links] == [e.rate_bps for e in before.links]


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("fail", "tokyo-oregn"), "no link tokyo-oregn in mesh4\n  remedy: did you mean 'tokyo-oregon'?"),
        (("fail", "tokyo", "oregn"), "did you mean 'tokyo-oregon'?"),
        (("heal", "oregn", "tokyo"), "did you mean 'oregon-tokyo'?"),
        (("crash", "tokio"), "did you mean 'tokyo'?"),
        (("isolate", "frankfrt"), "did you mean 'frankfurt'?"),
        (("arm", "join"), "did you mean 'joint'?"),
        (("shape", "tokyo", "oregon", "--rate", "20mbt"), "as in 100mbit"),
        (("shape", "tokyo", "oregon"), "give a rate, delay, jitter or loss"),
        (("reorder", "evry", "3"), "did you mean 'every'?"),
        (("reorder", "every"), "ringroad reorder every 5"),
        (("flap", "tokyo", "oregon", "--for", "-3s"), "write it like 25ms"),
        (("trace", "nowhere.csv"), "check the path"),
        (("capture", "tokyo", "oregn"), "did you mean 'tokyo-oregon'?"),
    ],
)
def test_near_misses_are_named_and_change_nothing(live, arguments, remedy):
    assert remedy in ringroad(*arguments, code=2)


def test_a_second_testbed_is_refused_and_told_who_holds_the_machine(live):
    said = ringroad("up", "mesh4", "--detach", code=1)
    assert "another testbed runs on this machine" in said and str(live["pid"]) in said


def complete(*words):
    """What the shell would offer after these words."""
    environment = os.environ | {
        "_RINGROAD_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("ringroad", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(RINGROAD, capture_output=True, text=True, env=environment, timeout=30)
    return done.stdout.split()


def test_names_complete_in_the_shell(live):
    assert complete("fail", "tok") == ["tokyo", "tokyo-oregon", "tokyo-virginia"]
    assert complete("fail", "tokyo", "o") == ["oregon"]
    assert complete("crash", "v") == ["virginia"]
    assert complete("arm", "") == ["static", "wan", "ccl", "joint"]
    assert complete("ring", "tokyo,o") == ["tokyo,oregon"]
    assert "mesh4" in complete("up", "m")


def test_two_terminals_see_the_same_in_the_same_order(testbed):
    with Client() as one, Client() as two:
        streams = [one.subscribe()[1], two.subscribe()[1]]
        testbed.fail("tokyo-oregon")
        testbed.heal("tokyo-oregon")

        def heard(stream):
            seen = []
            for event in stream:
                seen.append((event.seq, event.event))
                if isinstance(event, FaultEvent) and event.what == "heal":
                    return seen

        first, second = map(heard, streams)
    last = max(first[0], second[0])
    assert [e for e in first if e >= last] == [e for e in second if e >= last]


def test_a_subscriber_hears_what_happens_with_latencies(testbed):
    testbed.arm("wan")
    next_collectives(testbed)
    with Client() as listener:
        snapshot, events = listener.subscribe()
        testbed.fail("frankfurt-oregon")
        heard = {}
        for event in events:
            assert event.seq > snapshot.seq
            heard.setdefault(event.event, event)
            if {"link", "fault", "reconfiguration", "routes", "collective", "rates"} <= heard.keys():
                break
    assert isinstance(heard["collective"], CollectiveEvent)
    assert isinstance(heard["reconfiguration"], ReconfigurationEvent)
    assert ("frankfurt", "oregon") in {(m.source, m.target) for m in heard["reconfiguration"].moves}
    assert heard["reconfiguration"].latency_s > 0
    testbed.heal()
    testbed.arm("static")


def test_the_python_client_refuses_as_the_verbs_do(testbed):
    with pytest.raises(InputError, match="did you mean 'tokyo-oregon'"):
        testbed.fail("tokyo-oregn")
    with pytest.raises(RingroadError, match="lives"):
        testbed.restart("tokyo")
    testbed.check("fail", link="tokyo-oregon")
    assert edge(testbed, "tokyo", "oregon").up
