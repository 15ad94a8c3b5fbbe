"""Which switch and which port is which, and the commands that make a bridge one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from wans import wan_of

from testbed.wiring import WiringFile, conventional, load_wiring
from topologies import InputError

WAN = wan_of({"ac": 1e8, "ab": 1e8})

WIRING = """
sites:
  a: {dpid: 0x2a, bridge: br0, host: {port: 1, mac: "0c:42:a1:00:00:01"}, ports: {b: 5, c: 7}}
  b: {dpid: 2, host: {port: 1, mac: "0c:42:a1:00:00:02"}, ports: {a: 2}}
  c: {dpid: 3, host: {port: 9, mac: "0c:42:a1:00:00:03"}, ports: {a: 2}}
"""


def test_by_convention_sites_are_counted_from_1_and_links_from_port_2_in_the_order_of_the_file():
    wiring = conventional(WAN).wiring

    assert wiring.dpids == {"a": 1, "b": 2, "c": 3}
    assert wiring.ports == {("a", "c"): 2, ("c", "a"): 2, ("a", "b"): 3, ("b", "a"): 2}
    assert (wiring.hosts["c"].port, wiring.hosts["c"].mac) == (1, "02:00:00:00:00:03")


def test_a_file_says_otherwise(tmp_path: Path):
    (tmp_path / "w.yaml").write_text(WIRING)

    wiring = load_wiring(tmp_path / "w.yaml", WAN).wiring

    assert wiring.dpids == {"a": 42, "b": 2, "c": 3}
    assert wiring.ports == {("a", "b"): 5, ("a", "c"): 7, ("b", "a"): 2, ("c", "a"): 2}
    assert (wiring.hosts["c"].port, wiring.hosts["a"].mac) == (9, "0c:42:a1:00:00:01")


def test_the_commands_have_the_datapath_id_every_port_and_the_controller(tmp_path: Path):
    (tmp_path / "w.yaml").write_text(WIRING)

    first, second, _ = load_wiring(tmp_path / "w.yaml", WAN).commands(WAN, openflow_port=6653)

    assert "set bridge br0 other_config:datapath-id=000000000000002a" in first
    assert "set interface <port to c> ofport_request=7" in first
    assert "set-controller br0 tcp:127.0.0.1:6653" in first
    assert "fail_mode=secure" in first
    assert "set-controller <bridge of b> " in second


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("dpid: 2,", "dpid: 42,", r"w.yaml:4: sites.b.dpid: a has this datapath id already"),
        ("ports: {b: 5, c: 7}", "ports: {b: 5}", r"w.yaml:3: sites.a.ports: the port to c is missing"),
        ("ports: {b: 5, c: 7}", "ports: {b: 5, c: 7, d: 8}", r"w.yaml:3: sites.a.ports.d: the WAN has no such link"),
        ("ports: {b: 5, c: 7}", "ports: {b: 1, c: 7}", r"w.yaml:3: sites.a.ports: two things are on one port"),
        ("  c: {", "  z: {", r"(?s)sites.z: the WAN has no such site.*the site 'c' is missing|missing.*no such site"),
        ('"0c:42:a1:00:00:01"', "nonsense", r"w.yaml:3: sites.a.host.mac"),
        ("port: 9", "port: 0", r"w.yaml:5: sites.c.host.port"),
        ("bridge:", "brige:", r"w.yaml:3: sites.a.brige"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_line_place_and_reason(tmp_path: Path, old: str, new: str, complaint: str):
    (tmp_path / "w.yaml").write_text(WIRING.replace(old, new))

    with pytest.raises(InputError, match=complaint):
        load_wiring(tmp_path / "w.yaml", WAN)


def test_the_wiring_of_the_documentation_is_one():
    documentation = (Path(__file__).parents[2] / "docs" / "controller.md").read_text()
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", documentation, re.DOTALL | re.MULTILINE)

    assert WiringFile.model_validate(yaml.safe_load(example)).sites["tokyo"].dpid == 42
