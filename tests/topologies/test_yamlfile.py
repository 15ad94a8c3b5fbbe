from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from topologies.errors import Fault, InputError, show_place
from topologies.fields import Duration, Name, Probability, Rate, Size, Strict
from topologies.yamlfile import load, parse, read_text, validate


class Inner(Strict):
    kind: Literal["inner"] = "inner"
    rate: Rate
    loss: Probability = 0.0


class Other(Strict):
    kind: Literal["other"] = "other"
    delay: Duration


class Steps(Strict):
    kind: Literal["steps"] = "steps"
    steps: list[Inner]


class Whole(Strict):
    name: Name
    size: Size = 1
    count: int = 1
    parts: list[Annotated[Inner | Other | Steps, Field(discriminator="kind")]] = Field(default_factory=list)
    choice: str | Inner = ""
    pair: tuple[int, int] = (0, 0)


def the_error(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        validate(Whole, parse(text, "my.yaml"))
    return caught.value


def test_a_file_becomes_the_model_with_units_resolved():
    text = "name: Zürich – Süd\nsize: 8MiB\nparts:\n"
    text += "  - {kind: inner, rate: 100mbit, loss: 0.1%}\n  - {kind: other, delay: 25ms}\n"

    whole = validate(Whole, parse(text, "my.yaml"))

    assert whole.name == "Zürich – Süd"
    assert whole.size == 8_388_608
    assert whole.parts == [Inner(rate=100e6, loss=0.001), Other(delay=0.025)]


def test_every_place_keeps_the_line_it_came_from():
    loaded = parse("name: a\nparts:\n  - kind: inner\n    rate: 3mbit\n  - {kind: other}\n", "my.yaml")

    assert loaded.line(("name",)) == 1
    assert loaded.line(("parts",)) == 2
    assert loaded.line(("parts", 0, "rate")) == 4
    assert loaded.line(("parts", 1)) == 5
    assert loaded.line(("parts", 1, "not there")) == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["my.yaml", "empty", "remedy"]),
        ("# only a comment\n", ["my.yaml", "empty", "remedy"]),
        ("- a\n- b\n", ["my.yaml:1", "a list", "key: value"]),
        ("just words", ["my.yaml:1", "single value", "key: value"]),
        ("name: [a\n", ["my.yaml:2", "not YAML", "remedy"]),
        ("name: a\n\tsize: 3\n", ["my.yaml:2", "not YAML", "tabs"]),
        ("name: a\n---\nname: b\n", ["my.yaml:2", "another document"]),
        ("name: a\nsize: 1\nname: b\n", ["my.yaml:3", "'name' is there twice", "line 1"]),
        ("name: a\n12: b\n", ["my.yaml:2", "key is not text", "'12'"]),
        ("name: a\n? [x]\n: b\n", ["my.yaml:2", "key is not text"]),
        ("name: a\nparts: &p [*p]\n", ["my.yaml:2", "alias", "write the value out"]),
        ("name: a\nparts: !!python/object:os.x {}\n", ["my.yaml:2", "parts", "python/object"]),
        ("name: !!python/name:os.system\n", ["my.yaml:1", "name"]),
        ("name: 2024-99-99\n", ["my.yaml:1", "name", "quotes"]),
    ],
)
def test_what_is_not_a_mapping_of_plain_values_is_refused_with_its_line(text, expected):
    message = str(the_error(text))

    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("text", "line", "place", "value", "remedy"),
    [
        ("name: a\nsise: 3\n", 2, "sise", None, "did you mean 'size'?"),
        ("name: a\nparts:\n - {kind: inner, rate: 1mbit, los: 0}\n", 3, "parts[0].los", None, "did you mean 'loss'?"),
        ("name: a\nparts:\n - {kind: iner, rate: 1mbit}\n", 3, "parts[0].kind", "iner", "did you mean 'inner'?"),
        ("name: a\nparts:\n - {rate: 1mbit}\n", 3, "parts[0]", None, "add kind: …"),
        ("name: a\nparts:\n - inner\n", 3, "parts[0]", "inner", "key: value"),
        ("name: a\nparts:\n - {kind: inner}\n", 3, "parts[0].rate", None, "add rate: …"),
        ("name: a\nparts:\n - {kind: steps, steps: [], at: 3}\n", 3, "parts[0].at", None, "known: kind, steps"),
        ("name: a\nparts:\n - {kind: steps, steps: 4}\n", 3, "parts[0].steps", 4, "[a, b]"),
        ("name: a\nparts:\n - {kind: steps, steps: [{rate: 0}]}\n", 3, "parts[0].steps[0].rate", 0, "100mbit"),
        ("size: 3\n", 1, "name", None, "add name: …"),
        ("name: no\n", 1, "name", False, "in quotes"),
        ("name: 12\n", 1, "name", 12, "'12'"),
        ("name: ' a'\n", 1, "name", " a", ""),
        ("name: a\nsize: 8Mib\n", 2, "size", "8Mib", "8MiB"),
        ("name: a\nsize: 0\n", 2, "size", 0, "8MiB"),
        ("name: a\ncount: 1.5\n", 2, "count", 1.5, "like 3"),
        ("name: a\ncount: many\n", 2, "count", "many", "like 3"),
        ("name: a\nparts: 3\n", 2, "parts", 3, "[a, b]"),
        ("name: a\npair: [1]\n", 2, "pair", [1], "at least 2"),
        ("name: a\nparts:\n - {kind: inner, rate: 1MB}\n", 3, "parts[0].rate", "1MB", "100mbit"),
        ("name: a\nparts:\n - {kind: inner, rate: 0mbit}\n", 3, "parts[0].rate", "0mbit", "100mbit"),
        ("name: a\nparts:\n - {kind: inner, rate: -3mbit}\n", 3, "parts[0].rate", "-3mbit", "100mbit"),
        ("name: a\nparts:\n - {kind: inner, rate: .inf}\n", 3, "parts[0].rate", float("inf"), "100mbit"),
        ("name: a\nparts:\n - {kind: inner, rate: 1mbit, loss: 1}\n", 3, "parts[0].loss", 1, "below 1"),
        ("name: a\nparts:\n - {kind: inner, rate: 1mbit, loss: x%}\n", 3, "parts[0].loss", "x%", "0.1%"),
        ("name: a\nparts:\n - {kind: other, delay: -1ms}\n", 3, "parts[0].delay", "-1ms", "25ms"),
        ("name: a\nparts:\n - {kind: other, delay: 1mbit}\n", 3, "parts[0].delay", "1mbit", "25ms"),
        ("name: a\nchoice: {rat: 1mbit, rate: 1mbit}\n", 2, "choice.rat", None, "did you mean 'rate'?"),
    ],
)
def test_a_wrong_value_is_reported_with_line_place_value_and_remedy(text, line, place, value, remedy):
    error = the_error(text)

    assert error.file == f"my.yaml:{line}"
    assert error.place == place
    assert error.value == value
    assert remedy in error.remedy


def test_all_faults_are_reported_at_once_in_the_order_of_the_lines():
    error = the_error("size: 3 bits\nparts:\n  - {kind: inner}\nnmae: a\n")

    lines = [line for line in str(error).splitlines() if line.startswith("my.yaml:")]
    assert str(error).startswith("my.yaml: 4 faults")
    assert [line.split(": ")[:2] for line in lines[1:]] == [
        ["my.yaml:1", "name"],
        ["my.yaml:1", "size"],
        ["my.yaml:3", "parts[0].rate"],
        ["my.yaml:4", "nmae"],
    ]


def test_aliases_are_allowed_but_not_without_bound():
    assert parse("a: &x [1, 2]\nb: *x\n", "f").data == {"a": [1, 2], "b": [1, 2]}
    bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))

    with pytest.raises(InputError, match="more than"):
        parse(bomb, "f")


def test_a_missing_file_names_the_nearest_one(tmp_path: Path):
    (tmp_path / "quickstart.yaml").write_text("name: a\n")

    with pytest.raises(InputError, match="no such file") as caught:
        load(tmp_path / "quikstart.yaml")

    assert str(tmp_path / "quikstart.yaml") in str(caught.value)
    assert "did you mean 'quickstart.yaml'?" in str(caught.value)


def test_a_missing_folder_is_said(tmp_path: Path):
    with pytest.raises(InputError, match="no folder"):
        load(tmp_path / "nowhere" / "a.yaml")


def test_a_folder_is_not_a_file_and_what_it_holds_is_offered(tmp_path: Path):
    (tmp_path / "quickstart.yaml").write_text("name: a\n")

    with pytest.raises(InputError, match="a folder") as caught:
        load(tmp_path)

    assert "quickstart.yaml" in caught.value.remedy


def test_a_file_that_may_not_be_read_says_how_to_allow_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object):
        raise PermissionError(13, "Permission denied")  # root may read everything, so the refusal is played

    monkeypatch.setattr("topologies.yamlfile._open_now", refuse)

    with pytest.raises(InputError, match="may not read") as caught:
        load(tmp_path / "a.yaml")

    assert "chmod" in caught.value.remedy


@pytest.mark.parametrize(
    ("content", "expected"), [(b"name: a\nx: \xff\xfe\n", r"a\.yaml:2.*UTF-8"), (b"#" * (4 * 2**20 + 1), "larger than")]
)
def test_what_is_not_text_or_endless_is_refused(tmp_path: Path, content: bytes, expected: str):
    (tmp_path / "a.yaml").write_bytes(content)

    with pytest.raises(InputError, match=expected):
        load(tmp_path / "a.yaml")


def test_a_path_that_no_file_can_have_is_refused():
    with pytest.raises(InputError, match="cannot read"):
        load("a\0b.yaml")


def test_later_faults_are_pointed_at_by_their_place():
    loaded = parse("name: a\nparts:\n  - {kind: other, delay: 1s}\n", "my.yaml")

    error = loaded.error([Fault(("parts", 0, "delay"), "too long", 1.0, "shorten it")])

    assert str(error) == "my.yaml:3: parts[0].delay: too long (got 1.0)\n  remedy: shorten it"


def test_places_are_shown_as_in_code():
    assert show_place(("links", 3, "reverse", "rate")) == "links[3].reverse.rate"
    assert show_place(()) == ""


@pytest.mark.parametrize(
    "text",
    ["[" * 3000 + "]" * 3000, "{a: " * 800 + "}" * 800, "? " * 2000, "name: " + "[" * 900 + "]" * 900],
    ids=["lists", "mappings", "keys", "a value"],
)
def test_what_is_nested_beyond_reason_is_refused(text):
    assert "nested too deeply" in str(the_error(text))


def test_a_value_without_end_is_quoted_in_short():
    error = the_error(f"name: a\ncount: {'9' * 5000}\n")
    assert "count" in str(error)
    assert len(str(error)) < 1000
    assert len(str(the_error(f"name: a\nsize: {'x' * 100_000}\n"))) < 1000


def test_the_same_mistake_again_and_again_is_soon_said():
    error = the_error("name: a\npair: [1, 2]\nparts: [" + "3, " * 15_000 + "]\n")
    assert 10 < str(error).count("\n") < 100


def test_half_a_character_is_no_text_that_could_be_written_again():
    assert "half a character" in str(the_error('name: "a\\uD800b"\n'))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path):
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbftime,link,rate\n")
    assert read_text(tmp_path / "x.csv") == "time,link,rate\n"


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="empty"):
        load(tmp_path / "pipe.yaml")
