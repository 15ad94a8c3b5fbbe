"""Pydantic's complaints in the words of this project: the place in the file, what is wrong there, what would be right.

Knows pydantic; knows nothing of YAML, files or lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from itertools import takewhile
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from topologies.errors import Fault, Place, did_you_mean

MAX_FAULTS = 200
"""What is looked at: each is compared with each, and nobody reads more."""


def faults_of(error: ValidationError, data: object, model_class: type[BaseModel]) -> list[Fault]:
    """Everything that kept `data` from being a `model_class`, one fault a place."""
    first = error.errors(include_url=False)[:MAX_FAULTS]
    return _without_echoes([_fault(details, data, model_class) for details in first])


def _fault(details: ErrorDetails, data: object, model_class: type[BaseModel]) -> Fault:
    place = _place_in_file(details, data)
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "missing" and isinstance(place[-1], int):
        return Fault(place[:-1], "too few values", value, f"give at least {place[-1] + 1}")
    if kind == "missing":
        return Fault(place, "this key is missing", remedy=f"add {place[-1]}: …")
    if kind == "extra_forbidden":
        known = _known_keys(model_class.model_json_schema(), details["loc"][:-1])
        return Fault(place, f"unknown key {place[-1]!r}", remedy=did_you_mean(str(place[-1]), known))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _wrong_tag(place, value, context)
    if kind == "literal_error":
        known = [choice.strip("'") for choice in context["expected"].replace(" or ", ", ").split(", ")]
        return Fault(place, "not one of the choices", value, did_you_mean(str(value), known))
    if kind in _WRONG_SHAPE:
        return Fault(place, *_WRONG_SHAPE[kind](value))
    message, _, remedy = details["msg"].removeprefix("Value error, ").partition("; ")
    message = message.replace("Input should be", "must be").replace(" after validation", "")
    return Fault(place, message, None if isinstance(value, dict) else value, remedy)


_WRONG_SHAPE: dict[str, Callable[[object], tuple[str, object, str]]] = {
    "string_type": lambda value: ("this is not text", value, _as_text(value)),
    "list_type": lambda value: ("this is not a list", value, "write [a, b], or one line for each, begun with a dash"),
    "tuple_type": lambda value: ("this is not a list", value, "write [a, b]"),
    "model_type": lambda value: ("this is not a mapping", value, "write lines of the form key: value under it"),
    "model_attributes_type": lambda value: (
        "this is not a mapping",
        value,
        "write lines of the form key: value under it",
    ),
    "dict_type": lambda value: ("this is not a mapping", value, "write lines of the form key: value under it"),
    "int_type": lambda value: ("this is not a whole number", value, "write it like 3"),
    "int_parsing": lambda value: ("this is not a whole number", value, "write it like 3"),
    "int_from_float": lambda value: ("this is not a whole number", value, "write it like 3"),
    "float_type": lambda value: ("this is not a number", value, "write it like 0.5"),
    "float_parsing": lambda value: ("this is not a number", value, "write it like 0.5"),
    "bool_type": lambda value: ("this is neither true nor false", value, "write true or false"),
    "bool_parsing": lambda value: ("this is neither true nor false", value, "write true or false"),
}


def _without_echoes(faults: list[Fault]) -> list[Fault]:
    """Where a value may be of several kinds, each kind complains: keep what lies deepest, and one fault a place."""
    kept: dict[Place, Fault] = {}
    for fault in faults:
        deeper = any(len(other.place) > len(fault.place) == _common(other, fault) for other in faults)
        if not deeper or fault.value is None:
            kept.setdefault(fault.place, fault)
    return list(kept.values())


def _common(one: Fault, two: Fault) -> int:
    """How many parts two places begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.place, two.place, strict=False)))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "YAML reads yes, no, on and off as true and false; put the word in quotes"
    if isinstance(value, int | float | date):
        return f"put it in quotes: '{value}'"
    return "write a text"


def _wrong_tag(place: Place, value: object, context: Mapping[str, Any]) -> Fault:
    key = context["discriminator"].strip("'")
    if "tag" not in context:
        if isinstance(value, dict):
            return Fault(place, f"the key {key!r} is missing", remedy=f"add {key}: …")
        return Fault(place, "this is not a mapping", value, f"write keys under it, first of all {key}: …")
    known = [tag.strip("'") for tag in context["expected_tags"].split(", ")]
    return Fault((*place, key), f"unknown {key}", context["tag"], did_you_mean(context["tag"], known))


def _place_in_file(details: ErrorDetails, data: object) -> Place:
    """Pydantic's location without what is not in the file (the tags of unions)."""
    location = details["loc"]
    if details["type"] == "missing":
        return (*_longest_place(location[:-1], data), location[-1])
    return _longest_place(location, data)


def _longest_place(location: Place, data: object) -> Place:
    """As many parts of a location as lead into `data`; a tag may be spelt like a key (kind: steps, steps: […])."""
    if not location:
        return ()
    as_tag = _longest_place(location[1:], data)
    if not _holds(data, location[0]):
        return as_tag
    as_key = (location[0], *_longest_place(location[1:], data[location[0]]))  # type: ignore[index]
    return max(as_tag, as_key, key=len)


def _holds(data: object, part: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def _known_keys(schema: dict[str, Any], location: Place) -> list[str]:
    """The keys a model allows at a location, by its JSON schema."""
    nodes = _variants(schema, schema)
    for part in location:
        tagged = [found for node in nodes if (found := _by_tag(node, part, schema))]
        inside = tagged or _children(nodes, part)
        # A part without children is the name that pydantic gives to one kind of a union: not in the file.
        nodes = [found for child in inside for found in _variants(child, schema)] or nodes
    return sorted({key for node in nodes for key in node.get("properties", {})})


def _children(nodes: list[dict[str, Any]], part: str | int) -> list[dict[str, Any]]:
    found = []
    for node in nodes:
        if isinstance(part, int):
            found.append(node.get("items"))
        else:
            found.append(node.get("properties", {}).get(part) or node.get("additionalProperties"))
    return [child for child in found if isinstance(child, dict)]


def _by_tag(node: dict[str, Any], part: str | int, schema: dict[str, Any]) -> dict[str, Any] | None:
    reference = node.get("discriminator", {}).get("mapping", {}).get(part)
    return _follow({"$ref": reference}, schema) if reference else None


def _variants(node: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """A node itself and all that its references and unions stand for."""
    node = _follow(node, schema)
    inner = [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
    return [node, *(found for child in inner for found in _variants(child, schema))]


def _follow(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node
