"""The dashboard of a running testbed over HTTP, on a control socket that speaks the protocol."""

import http.client
import json
import time

import pytest
from controlsocket import ControlSocket, edge_state
from pages import dashboard
from waiting import eventually

from testbed.live import protocol


class Stream:
    """What one page is told: (name, data) of each server-sent event."""

    def __init__(self, page):
        self._connection = http.client.HTTPConnection(page.host, page.port, timeout=20)
        self._connection.request("GET", "/events", headers={"Authorization": f"Bearer {page.token}"})
        self._lines = self._connection.getresponse()
        self._pending = []

    def next(self):
        name, data = "", ""
        while line := self._lines.readline().decode():
            key, _, value = line.rstrip("\n").partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                data = value
            elif not line.strip() and name:
                return name, json.loads(data)
        return None, None

    def until(self, wanted):
        """The first event of a page's vocabulary for which `wanted` holds."""
        while True:
            while self._pending:
                if wanted(event := self._pending.pop(0)):
                    return event
            self._pending += self.next()[1]["events"]

    def close(self):
        self._connection.close()


@pytest.fixture(scope="module")
def control(tmp_path_factory):
    with ControlSocket(tmp_path_factory.mktemp("c") / "control.sock") as running:
        yield running


@pytest.fixture(scope="module")
def page(control):
    with dashboard("testbed.live.web", "--socket", control.path) as running:
        yield running


@pytest.fixture
def stream(page):
    opened = Stream(page)
    yield opened
    opened.close()


def test_the_scene_is_that_of_the_testbed(page, control):
    scene = json.loads(page.ask("/scene")[2])

    assert (scene["mode"], scene["wan"]) == ("live", "mesh4")
    assert [site["name"] for site in scene["sites"]] == ["frankfurt", "oregon", "tokyo", "virginia"]
    assert scene["links"][3] == {"name": "tokyo-oregon", "a": 2, "b": 1, "rates_bps": [100e6, 100e6]}


def test_a_page_begins_with_all_that_is_known(stream):
    name, first = stream.next()

    assert name == "snapshot"
    by_kind = {event["kind"]: event for event in first["events"] if event.get("first")}
    assert by_kind["edges"]["set"][0] == [0, 100e6, "up"]
    assert by_kind["ring"]["order"] == [0, 1, 2, 3]
    assert by_kind["settings"] | {"at": 0} == {
        **{"kind": "settings", "at": 0, "arm": "joint", "reorder_every": 4, "t_wan_s": 0.5, "first": True}
    }
    assert len(by_kind["routes"]["moves"]) == 12


def test_what_happens_is_told_to_every_page_at_once_and_in_the_same_words(page, control, stream):
    other = Stream(page)
    stream.next(), other.next()
    down = tuple(edge_state(control.wan, edge, up=False) for edge in (("tokyo", "oregon"), ("oregon", "tokyo")))

    before = time.monotonic()
    control.tell(protocol.LinkEvent, "tokyo-oregon down", links=down)
    told = [each.until(lambda event: event["kind"] == "edges") for each in (stream, other)]

    assert told[0] == told[1]
    assert told[0]["set"] == [[6, 100e6, "down"], [7, 100e6, "down"]]
    assert time.monotonic() - before < 5
    other.close()


def test_moves_ring_changes_settings_and_collectives_reach_the_page_with_what_they_took(control, stream):
    stream.next()
    move = protocol.Move("tokyo", "oregon", ("tokyo", "oregon"), ("tokyo", "virginia", "oregon"))
    times = {"happened_at": 1.0, "seen_at": 1.001, "decided_at": 1.002, "installed_at": 1.005, "latency_s": 0.005}
    control.tell(protocol.ReconfigurationEvent, "moved", number=1, cause="port_status", moves=(move,), **times)
    ring = protocol.Ring(("frankfurt", "tokyo", "oregon", "virginia"), 1, False)
    took = {"measure_s": 0.04, "decide_s": 0.005, "agree_s": 0.005, "predicted_gain": 0.2}
    before = {"before": control.wan.dcs, "changed": True, "by_hand": False}
    control.tell(protocol.RingChangeEvent, "ring changed", ring=ring, **before, **took)
    control.tell(protocol.ArmEvent, "arm: ccl", control=protocol.Control("ccl", "shortest", 0.25, 8))
    control.collective(time_s=0.5, limit_s=0.2)

    moved = stream.until(lambda event: event["kind"] == "routes")
    assert moved["moves"] == [[2, 1, [2, 3, 1]]]
    assert moved["took_s"] == 0.005
    assert moved["text"] == "1 pair moved (port status): tokyo → oregon now tokyo → virginia → oregon"
    changed = stream.until(lambda event: event["kind"] == "ring")
    assert (changed["order"], changed["took_s"]) == ([0, 2, 1, 3], pytest.approx(0.05))
    assert stream.until(lambda event: event["kind"] == "settings")["arm"] == "ccl"
    assert stream.until(lambda event: event["kind"] == "collective")["took_s"] == 0.5


def test_a_page_that_opens_later_is_told_the_same_as_one_that_was_there(page, control, stream):
    early = [stream.next()[1]]
    control.tell(protocol.ArmEvent, "arm: wan", control=protocol.Control("wan", "widest", 0.25, 8))
    early.append(stream.next()[1])

    late = Stream(page)
    snapshot = late.next()[1]
    late.close()

    assert snapshot["version"] == early[-1]["version"]
    assert snapshot["events"] == early[0]["events"] + early[1]["events"]


def test_a_change_is_asked_of_the_testbed_as_the_page_asked_it(page, control):
    control.asked.clear()

    status, answer = page.change(op="shape", link="tokyo-oregon", rate=30e6, one_way=["tokyo", "oregon"])

    assert (status, answer["did"]) == (200, "as asked")
    assert control.asked == [{"op": "shape", "link": "tokyo-oregon", "rate": 30e6, "one_way": ["tokyo", "oregon"]}]


@pytest.mark.parametrize(
    "op", ["down", "trace", "where", "subscribe", "check", "sh", "", None, 7, ["fail"], {"op": "fail"}]
)
def test_what_a_page_may_not_ask_never_reaches_the_testbed(page, control, op):
    control.asked.clear()

    status, answer = page.change(op=op)

    assert status == 400
    assert "fail, heal" in answer["remedy"]
    assert control.asked == []


def test_a_refusal_of_the_testbed_is_passed_on_with_its_remedy(page, control):
    control.refusal = {"message": "no link 'x' in mesh4", "remedy": "did you mean tokyo-oregon?", "exit_code": 2}
    try:
        status, answer = page.change(op="fail", link="x")
    finally:
        control.refusal = None

    assert (status, answer) == (400, {"error": "no link 'x' in mesh4", "remedy": "did you mean tokyo-oregon?"})


@pytest.mark.parametrize("field", ["self", "op\\ud800", "fields"])
def test_any_field_reaches_the_testbed_which_knows_what_it_takes(page, control, field):
    control.asked.clear()
    own = {"Origin": f"http://{page.host}:{page.port}", "Content_Type": "application/json"}

    status = page.ask("/change", "POST", b'{"op": "fail", "%s": 1}' % field.encode(), **own)[0]

    assert status == 200
    assert [set(asked) for asked in control.asked] == [{"op", json.loads(f'"{field}"')}]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"7", b"[" * 2000, b"\xff\xfe", b'{"op":"fail","link":"' + b"x" * 5000 + b'"}']
)
def test_what_is_no_request_is_refused_and_changes_nothing(page, control, body):
    control.asked.clear()
    own = {"Origin": f"http://{page.host}:{page.port}", "Content_Type": "application/json"}

    status = page.ask("/change", "POST", body, **own)[0]

    assert status in (400, 413)
    assert control.asked == []


def test_another_page_cannot_make_a_browser_change_anything(page, control):
    control.asked.clear()
    body = b'{"op": "fail", "link": "tokyo-oregon"}'
    here = f"http://{page.host}:{page.port}"

    assert page.ask("/change", "POST", body, Origin="http://evil.example", Content_Type="application/json")[0] == 403
    assert page.ask("/change", "POST", body, Content_Type="application/json")[0] == 403
    assert page.ask("/change", "POST", body, Origin=here, Content_Type="text/plain")[0] == 415
    assert page.ask("/change", "POST", body, Origin=here, Content_Type="application/json", token=False)[0] == 403
    assert page.ask("/change")[0] in (404, 405)
    assert control.asked == []


def test_a_dashboard_that_was_cut_off_listens_anew_and_pages_begin_anew(page, control, stream):
    stream.next()
    control.cut_off()
    while stream.next()[0] is not None:
        pass
    eventually(lambda: control._listening, 20)

    other = Stream(page)
    other.next()
    control.tell(protocol.ArmEvent, "arm: static", control=protocol.Control("static", "widest", 0.25, 8))
    assert other.until(lambda event: event["kind"] == "settings")["arm"] == "static"
    other.close()


def test_it_steps_back_behind_the_emulation(page):
    fields = open(f"/proc/{page.process.pid}/stat").read().rpartition(")")[2].split()  # noqa: PTH123, SIM115

    assert int(fields[16]) >= 10


def test_when_the_testbed_is_gone_pages_are_told_and_it_ends(tmp_path):
    with (
        ControlSocket(tmp_path / "control.sock") as control,
        dashboard("testbed.live.web", "--socket", control.path) as page,
    ):
        stream = Stream(page)
        stream.next()
        control.tell(protocol.DownEvent, "taken down")
        name = eventually(lambda: stream.next()[0], 20)
        while name == "changes":
            name = stream.next()[0]
        assert name == "down"
        assert page.process.wait(timeout=20) == 0


def test_where_nobody_answers_it_says_so(tmp_path):
    import subprocess
    import sys

    command = [sys.executable, "-m", "testbed.live.web", "--socket", str(tmp_path / "none.sock")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert "nobody answers" in done.stderr
