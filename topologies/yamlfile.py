"""YAML files that people write, checked whole: every fault is reported at once, with file, line, value and remedy.

Knows YAML and pydantic; knows nothing of what a file is about. The file is read with safe tags only, and each value
keeps the line it came from, so that a fault found much later can still be pointed at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from topologies.errors import Fault, InputError, Place, did_you_mean
from topologies.wording import faults_of

MAX_FILE_BYTES = 4 * 2**20
MAX_YAML_BYTES = 512 * 2**10
"""YAML is read at some 100 kB/s; whatever is larger is no file of a person and would keep one waiting."""

MAX_VALUES = 20_000
"""More values than this come from aliases of aliases, not from a person."""

MAX_LISTED = 20
"""More faults than these are the same mistake again and again."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Loaded:
    """What a file holds: plain dicts, lists and scalars, and the line (from 1) of every place in it."""

    file: str
    data: dict[str, Any]
    lines: Mapping[Place, int] = field(default_factory=dict)

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest place around it that exists."""
        while place not in self.lines and place:
            place = place[:-1]
        return self.lines.get(place, 1)

    def error(self, faults: Iterable[Fault]) -> InputError:
        """One InputError that lists every fault, in the order of the lines."""
        ordered = sorted(faults, key=lambda fault: self.line(fault.place))
        if len(ordered) == 1:
            return ordered[0].error(f"{self.file}:{self.line(ordered[0].place)}")
        listed = "".join(f"\n{fault.error(f'{self.file}:{self.line(fault.place)}')}" for fault in ordered[:MAX_LISTED])
        if len(ordered) > MAX_LISTED:
            listed += f"\nand {len(ordered) - MAX_LISTED} more"
        return InputError(f"{len(ordered)} faults{listed}", file=self.file)


def load(path: Path | str) -> Loaded:
    """Read a YAML file whose top level is a mapping. InputError names the file, the line, what is there, the remedy."""
    path = Path(path)
    return parse(read_text(path), str(path))


def parse(text: str, file: str) -> Loaded:
    """The same from text; `file` is the name to use in errors."""
    if len(text) > MAX_YAML_BYTES:
        raise InputError(f"the file is larger than {MAX_YAML_BYTES} bytes", file=file, remedy="is it the right one?")
    try:
        return _parsed(text, file)
    except RecursionError:
        raise InputError("lists or mappings nested too deeply", file=file, remedy="is it the right file?") from None


def _parsed(text: str, file: str) -> Loaded:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _not_yaml(error, file) from error
    if node is None:
        raise InputError("the file is empty", file=file, remedy="write at least the required keys, or copy an example")
    if not isinstance(node, yaml.MappingNode):
        found = "a list" if isinstance(node, yaml.SequenceNode) else "one single value"
        raise InputError(
            f"the file holds {found}", file=f"{file}:1", remedy="it must hold lines of the form key: value"
        )
    builder = _Builder(file)
    data = builder.build(node, ())
    loaded = Loaded(file, data, builder.lines)
    if builder.faults:
        raise loaded.error(builder.faults)
    return loaded


def validate(model_class: type[Model], loaded: Loaded, context: dict[str, Any] | None = None) -> Model:
    """The file's content as `model_class`. InputError lists everything that is wrong, each with its line and remedy."""
    try:
        return model_class.model_validate(loaded.data, context=context)
    except ValidationError as error:
        raise loaded.error(faults_of(error, loaded.data, model_class)) from None


def read_text(path: Path) -> str:
    """The UTF-8 text of a file. InputError says why not, and what to do."""
    try:
        with os.fdopen(_open_now(path), "rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError("no such file", file=str(path), remedy=_nearest_file(path)) from error
    except IsADirectoryError as error:
        raise InputError("this is a folder", file=str(path), remedy=_files_inside(path)) from error
    except PermissionError as error:
        raise InputError("you may not read this file", file=str(path), remedy=f"chmod u+r {path}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the file: {error}", file=str(path)) from error
    if len(content) > MAX_FILE_BYTES:
        raise InputError(
            f"the file is larger than {MAX_FILE_BYTES} bytes", file=str(path), remedy="is it the right one?"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError("the file is not UTF-8 text", file=f"{path}:{line}", remedy="save it as UTF-8") from error


def _open_now(path: Path) -> int:
    """A descriptor to read from. A named pipe that nobody writes to counts as empty; to open it would wait for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(descriptor, True)
    return descriptor


def _nearest_file(path: Path) -> str:
    try:
        near = sorted(found.name for found in path.parent.iterdir() if found.suffix in (".yaml", ".yml"))
    except OSError:
        return f"there is no folder {str(path.parent)!r} either; check the path"
    return did_you_mean(path.name, near) if near else "check the path"


def _files_inside(path: Path) -> str:
    inside = sorted(str(found) for found in path.iterdir() if found.suffix in (".yaml", ".yml"))
    return f"give a file, such as {inside[0]}" if inside else "give a file"


def _not_yaml(error: yaml.YAMLError, file: str) -> InputError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    where = f"{file}:{mark.line + 1}" if mark else file
    column = f"column {mark.column + 1}" if mark else ""
    remedy = "check indentation (spaces, not tabs), colons and quotes on this line and the one before"
    return InputError(f"this is not YAML: {problem}", file=where, place=column, remedy=remedy)


class _Builder:
    """Turns a YAML node tree into plain values, noting lines and faults on the way."""

    def __init__(self, file: str) -> None:
        self.lines: dict[Place, int] = {}
        self.faults: list[Fault] = []
        self._file = file
        self._scalars = yaml.SafeLoader("")
        self._open: set[int] = set()

    def build(self, node: yaml.Node, place: Place) -> Any:
        self.lines.setdefault(place, node.start_mark.line + 1)
        if len(self.lines) > MAX_VALUES:
            raise InputError(
                f"the file holds more than {MAX_VALUES} values", file=self._file, remedy="use fewer aliases"
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, place)
        if id(node) in self._open:
            self.faults.append(Fault(place, "an alias inside what it stands for", remedy="write the value out"))
            return None
        if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            self.faults.append(Fault(place, "only plain values, lists and mappings", node.tag, "take the ! tag away"))
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(child, (*place, index)) for index, child in enumerate(node.value)]
            return dict(self._pairs(node, place))
        finally:
            self._open.discard(id(node))

    def _pairs(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, Any]]:
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value
            if key_node.tag != "tag:yaml.org,2002:str":
                remedy = f"put it in quotes: '{key}'" if isinstance(key, str) else "a key is plain text"
                shown = key if isinstance(key, str) else "a list or mapping"
                self._fault_at(
                    (*place, str(shown)), line, Fault((*place, str(shown)), "a key is not text", shown, remedy)
                )
            elif key in first_lines:
                again = Fault(
                    (*place, key), f"the key {key!r} is there twice", remedy=f"line {first_lines[key]} has it already"
                )
                self._fault_at(again.place, line, again)
            else:
                first_lines[key] = line
                self.lines[(*place, key)] = line
                yield key, self.build(value_node, (*place, key))

    def _fault_at(self, place: Place, line: int, fault: Fault) -> None:
        self.lines[place] = line
        self.faults.append(fault)

    def _scalar(self, node: yaml.ScalarNode, place: Place) -> Any:
        try:
            value = self._scalars.construct_object(node, deep=True)
            if isinstance(value, str):
                value.encode()
            return value
        except UnicodeEncodeError:
            self.faults.append(Fault(place, "this is not text: half a character", node.value, "write the whole one"))
            return None
        except (yaml.YAMLError, ValueError) as error:
            reason = getattr(error, "problem", None) or str(error).partition(";")[0]
            self.faults.append(Fault(place, str(reason), node.value, "write a plain value, or put it in quotes"))
            return None
