"""What a run keeps: one folder, JSON lines that only grow, readable while they do.

The runner appends, each line in one write, so that a reader sees whole lines or at most one torn last line. It knows
where things lie and nothing of what they mean; the meaning is in `report`.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from topologies.errors import InputError, RingroadError

EXPERIMENT, MANIFEST, GATE, ARMS = "experiment.yaml", "manifest.json", "gate.json", "arms.jsonl"
START_ORDERS = "start_orders.jsonl"
SUMMARY_JSON, SUMMARY_TEXT = "summary.json", "summary.txt"
RECORDS = ("collectives", "ring_changes", "memberships", "reconfigurations", "controller_events", "changes", "faults")
"""What is kept of one arm in one block: a file of JSON lines each."""
ELSEWHERE = "choose a folder that you may write to, with --out DIR"


class RunFolder:
    """One run's folder. Make it with `create`, or open one that is there with `open_run`.

    Safe to append to from several threads; one process writes, any number read.
    """

    def __init__(self, path: Path, unwritable: str = ELSEWHERE) -> None:
        """`unwritable` is the remedy if the system refuses to write into it."""
        self.path = path
        self._unwritable = unwritable
        self._lock = threading.Lock()
        self._descriptors: dict[Path, int] = {}

    @classmethod
    def create(
        cls, name: str, run_id: str, experiment_text: str, *, out: Path | None = None, now: datetime | None = None
    ) -> RunFolder:
        """A new folder `runs/<name>-<UTC>-<run id>`, or exactly `out`, with the experiment's text in it.

        RingroadError if it cannot be written to, InputError if `out` holds something already.
        """
        path = out if out is not None else Path("runs") / folder_name(name, run_id, now or datetime.now(UTC))
        make_empty(path, exist_ok=out is not None)
        try:
            folder = cls(path)
            (path / "logs").mkdir()
            (path / "blocks").mkdir()
            (path / EXPERIMENT).write_text(experiment_text, encoding="utf-8")
        except OSError as error:
            raise _cannot_keep(path, error, ELSEWHERE) from error
        return folder

    @property
    def logs(self) -> Path:
        """The folder that every process of the run logs into."""
        return self.path / "logs"

    def write_json(self, name: str, value: Any) -> None:
        """Write a whole file such as `manifest.json`: it is either the old one or the new one, never half."""
        self.write_bytes(name, (encode(value, indent=2) + "\n").encode())

    def write_bytes(self, name: str, content: bytes) -> None:
        """As `write_json`, for text and pictures."""
        target = self.path / name
        unfinished = target.with_name(f".{name}.unfinished")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(target)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise _cannot_keep(target, error, self._unwritable) from error

    def read_json(self, name: str) -> Any:
        """What `write_json` wrote, or None if there is no such file. RingroadError if it is not JSON."""
        file = self.path / name
        if not file.exists():
            return None
        try:
            return json.loads(file.read_bytes())
        except (ValueError, RecursionError) as error:
            raise RingroadError(f"{file} is not JSON: {error}", "restore the file, or run again") from error

    def append_arm(self, record: dict[str, Any]) -> None:
        """One line in `arms.jsonl`: this arm of this block is finished."""
        self._append(self.path / ARMS, record)

    def append_start_order(self, record: dict[str, Any]) -> None:
        """One line in `start_orders.jsonl`: how the order that a block's arms start with was measured."""
        self._append(self.path / START_ORDERS, record)

    def read_arms(self) -> list[dict[str, Any]]:
        """All finished arms so far, in the order in which they ran."""
        return list(read_lines(self.path / ARMS))

    def append(self, block: int, arm: str, kind: str, record: dict[str, Any]) -> None:
        """One line in `blocks/<block>/<arm>/<kind>.jsonl`; `kind` is one of `RECORDS`."""
        self._append(self._records_file(block, arm, kind), record)

    def read(self, block: int, arm: str, kind: str) -> list[dict[str, Any]]:
        """All lines of one kind so far; empty if there are none."""
        return list(read_lines(self._records_file(block, arm, kind)))

    def arms_begun(self) -> list[tuple[int, str]]:
        """Every (block, arm) that has records, finished or not, by block and then name."""
        folders = [f for f in (self.path / "blocks").glob("*/*") if f.is_dir() and f.parent.name.isdecimal()]
        return sorted((int(f.parent.name), f.name) for f in folders)

    def remove_unless_anything_is_kept(self) -> None:
        """Of a run that could not begin: take back what `create` made, so that the same `out` can be given again."""
        if not any(file.is_file() and file != self.path / EXPERIMENT for file in self.path.rglob("*")):
            shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Close what `append` opened; appending again opens it again."""
        with self._lock:
            for descriptor in self._descriptors.values():
                os.close(descriptor)
            self._descriptors.clear()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _records_file(self, block: int, arm: str, kind: str) -> Path:
        if kind not in RECORDS:
            raise ValueError(f"no kind of record {kind!r}; there are {', '.join(RECORDS)}")
        return self.path / "blocks" / str(block) / arm / f"{kind}.jsonl"

    def _append(self, file: Path, record: dict[str, Any]) -> None:
        line = (encode(record) + "\n").encode()
        with self._lock:
            try:
                if file not in self._descriptors:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                    self._descriptors[file] = os.open(file, flags, 0o644)
                _write_whole(self._descriptors[file], line)
            except OSError as error:
                raise _cannot_keep(file, error, self._unwritable) from error


def make_empty(path: Path, exist_ok: bool = True) -> None:
    """The folder, empty. RingroadError if it cannot be made, InputError if it holds something already."""
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
        filled = any(path.iterdir())
    except OSError as error:
        raise _cannot_keep(path, error, ELSEWHERE) from error
    if filled:
        raise InputError(
            "the run folder holds something already",
            place="--out",
            value=str(path),
            remedy="give a folder that is empty or does not exist: results are never overwritten",
        )


def open_run(path: Path) -> RunFolder:
    """The folder of a run, finished or not. InputError if it is none."""
    if not path.is_dir():
        raise InputError("no such run folder", value=str(path), remedy="give the folder that `ringroad run` named")
    if not (path / MANIFEST).exists():
        raise InputError(
            f"not a run folder: it has no {MANIFEST}",
            value=str(path),
            remedy="give the folder that `ringroad run` named, as in runs/quickstart-…",
        )
    return RunFolder(path, "make the folder writable to you, or copy it to where you may write and report on the copy")


def folder_name(name: str, run_id: str, now: datetime) -> str:
    """`quickstart-20260102T030405Z-k3f9`. Names of experiments are free text, names of folders are plain."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].rstrip("-")
    return f"{plain or 'run'}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{run_id}"


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Every whole line as an object; a last line without its end is still being written (or was cut off): left out.

    Empty if the file does not exist. RingroadError for a whole line that is not a JSON object.
    """
    if not file.exists():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise RingroadError(f"{file}, line {number} is not JSON: {error}", "remove that line") from error
            if not isinstance(record, dict):
                raise RingroadError(f"{file}, line {number} is not a JSON object", "remove that line")
            yield record


def encode(value: Any, indent: int | None = None) -> str:
    """JSON text; dataclasses become objects, paths become strings, and figures that are not finite become null."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False, indent=indent)
    except ValueError:
        finite = _without_infinities(json.loads(json.dumps(value, default=_plain)))
        return json.dumps(finite, ensure_ascii=False, indent=indent)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _without_infinities(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_without_infinities(v) for v in value]
    if isinstance(value, dict):
        return {k: _without_infinities(v) for k, v in value.items()}
    return value


def _write_whole(descriptor: int, line: bytes) -> None:
    """Append the line or nothing: what a full disk cuts short is taken back."""
    before = os.fstat(descriptor).st_size
    try:
        written = 0
        while written < len(line):
            written += os.write(descriptor, line[written:])
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def _cannot_keep(path: Path, error: OSError, unwritable: str) -> RingroadError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RingroadError(
            f"the disk is full: {path} cannot be written", "free some space; what was measured so far is kept"
        )
    return RingroadError(f"{path} cannot be written: {error.strerror or error}", unwritable)
