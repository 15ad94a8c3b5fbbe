from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import EdgeProperties, InputError, Link, Site, Wan
from topologies.wanfile import load_wan, read_wan, wan_schema, write_wan

TWO = """
name: two
defaults: {rate: 100mbit, jitter: 1ms}
sites:
  - {name: tokyo, at: [35.68, 139.69]}
  - {name: oregon}
  - {name: hub, kind: transit}
links:
  - {between: [tokyo, oregon], delay: 45ms, reverse: {rate: 50mbit, loss: 0.1%}}
  - {between: [oregon, hub], name: the short one, rate: 1.5gbit}
"""


def with_links(*links: str, sites: str = "a b c") -> str:
    lines = ["name: w", "sites:", *(f"  - {{name: {site}}}" for site in sites.split()), "links:"]
    return "\n".join([*lines, *(f"  - {link}" for link in links)]) + "\n"


def the_error(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_wan(text, "w.yaml")
    return caught.value


def test_a_wan_file_is_read_with_defaults_and_the_reverse_direction_of_links():
    wan = read_wan(TWO)

    assert wan.name == "two"
    assert wan.dcs == ("tokyo", "oregon")
    assert wan.site("tokyo") == Site("tokyo", "dc", 35.68, 139.69)
    assert wan.site("hub").kind == "transit"
    assert wan.link("oregon-tokyo").forward == EdgeProperties(100e6, 0.045, 0.001, 0.0)
    assert wan.link("oregon-tokyo").backward == EdgeProperties(50e6, 0.045, 0.001, 0.001)
    assert wan.link("the short one").forward == EdgeProperties(1.5e9, 0.0, 0.001, 0.0)
    assert wan.link("oregon-hub") is wan.link("the short one")


@pytest.mark.parametrize(
    ("text", "line", "place", "value", "remedy"),
    [
        (with_links("{between: [a, b], rate: 1mbit, dealy: 3ms}"), 7, "links[0].dealy", None, "'delay'"),
        (with_links("{between: [a, b], rate: 1mbits}"), 7, "links[0].rate", "1mbits", "100mbit"),
        (with_links("{between: [a, b], rate: 1MB}"), 7, "links[0].rate", "1MB", "100mbit"),
        (with_links("{between: [a, b], rate: 100}"), 7, "links[0].rate", 100, "unit"),
        (with_links("{between: [a, b], rate: '100'}"), 7, "links[0].rate", "100", "100mbit"),
        (with_links("{between: [a, b], rate: 0mbit}"), 7, "links[0].rate", "0mbit", "100mbit"),
        (with_links("{between: [a, b], rate: -5mbit}"), 7, "links[0].rate", "-5mbit", "100mbit"),
        (with_links("{between: [a, b]}"), 7, "links[0]", None, "add rate"),
        (with_links("{between: [a], rate: 1mbit}"), 7, "links[0].between", ["a"], "at least 2"),
        (with_links("{between: [a, a], rate: 1mbit}"), 7, "links[0].between", "a", "two sites"),
        (with_links("{between: [a, b, c], rate: 1mbit}"), 7, "links[0].between", ["a", "b", "c"], ""),
        (
            with_links("{between: [north, soth], rate: 1mbit}", sites="north south"),
            6,
            "links[0]",
            "soth",
            "did you mean 'south'?",
        ),
        (
            with_links("{between: [a, b], rate: 1mbit}", "{between: [b, a], rate: 1mbit}", sites="a b"),
            7,
            "links[1]",
            "a ↔ b",
            "one link",
        ),
        (with_links("{between: [a, b], rate: 1mbit}"), 6, "links", ["c"], "add a link that joins 'c'"),
        (with_links(sites="a").replace("links:", "links: []"), 2, "sites", ["a"], "add a site of kind dc"),
        (with_links("{between: [a, b], rate: 1mbit}", sites="a b a"), 5, "sites[2]", "a", "rename"),
        (
            with_links("{between: [a, b], rate: 1mbit, name: x}", "{between: [b, c], rate: 1mbit, name: x}"),
            8,
            "links[1]",
            "x",
            "rename",
        ),
        (TWO.replace("35.68", "95.68"), 5, "sites[0].at[0]", 95.68, ""),
        (TWO.replace("name: oregon", "name: no"), 6, "sites[1].name", False, "quotes"),
        (TWO.replace("kind: transit", "kind: router"), 7, "sites[2].kind", "router", "dc"),
        (TWO.replace("loss: 0.1%", "loss: 100%"), 9, "links[0].reverse.loss", "100%", "below 1"),
    ],
)
def test_a_fault_in_a_wan_file_is_reported_with_line_place_value_and_remedy(text, line, place, value, remedy):
    error = the_error(text)

    assert error.file == f"w.yaml:{line}"
    assert error.place == place
    assert error.value == value
    assert remedy in error.remedy


def test_several_faults_of_the_graph_are_reported_at_once():
    error = the_error(with_links("{between: [a, b], rate: 1mbit}", "{between: [a, b], rate: 1mbit}"))

    assert "2 faults" in str(error)
    assert "two links join the same sites" in str(error)
    assert "the WAN is in pieces" in str(error)


def test_long_names_with_spaces_accents_and_other_scripts_work():
    names = ["São Paulo – Barueri, second availability", "東京", 'it\'s: a "quoted" #name']
    assert len(names[0]) == 40
    links = (_link(names[0], names[1]), _link(names[1], names[2]))
    wan = Wan("ünïcode", tuple(Site(name) for name in names), links)

    again = read_wan(write_wan(wan))

    assert again == wan
    assert again.link(f"{names[1]}-{names[0]}").a == names[0]


def test_a_wan_is_loaded_by_path_or_by_the_name_of_a_built_in(tmp_path: Path):
    file = tmp_path / "two.yaml"
    file.write_text(TWO)

    assert load_wan(file) == load_wan(str(file)) == read_wan(TWO)
    assert load_wan("mesh4").name == "mesh4"


def test_a_name_that_is_neither_built_in_nor_a_file_gets_the_nearest_built_in():
    with pytest.raises(InputError, match="did you mean 'mesh4'"):
        load_wan("mehs4")


def test_the_schema_describes_every_key():
    schema = wan_schema()

    assert set(schema["properties"]) == {"name", "description", "defaults", "sites", "links"}
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["LinkEntry"]["properties"]["rate"]["anyOf"][0]["type"] == ["string", "number"]


def _link(a: str, b: str) -> Link:
    return Link(a, b, EdgeProperties(1e6), EdgeProperties(1e6))


PROPERTIES = st.builds(
    EdgeProperties,
    rate_bps=st.floats(8e3, 1e12),
    delay_s=st.floats(0, 10),
    jitter_s=st.floats(0, 10),
    loss=st.floats(0, 1, exclude_max=True),
)
NAMES = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=40).filter(
    lambda name: name == name.strip() and name.isprintable() and bool(name.strip())
)


@st.composite
def wans(draw: st.DrawFn) -> Wan:
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    coordinates = st.tuples(st.floats(-90, 90), st.floats(-180, 180)) | st.just((None, None))
    kinds = ["dc", "dc", *(draw(st.sampled_from(["dc", "transit"])) for _ in names[2:])]
    sites = tuple(Site(name, kind, *draw(coordinates)) for name, kind in zip(names, kinds, strict=True))
    tree = [(names[draw(st.integers(0, i - 1))], names[i]) for i in range(1, len(names))]
    labels = [draw(st.just("") | st.just(f"cable {i}")) for i in range(len(tree))]
    links = tuple(
        Link(*ends, draw(PROPERTIES), draw(PROPERTIES), name) for ends, name in zip(tree, labels, strict=True)
    )
    return Wan(draw(NAMES), sites, links, draw(st.just("") | NAMES))


@settings(max_examples=60, deadline=None)
@given(wans())
def test_any_wan_survives_being_written_and_read(wan: Wan):
    assert read_wan(write_wan(wan)) == wan
