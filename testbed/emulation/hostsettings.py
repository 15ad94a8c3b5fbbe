"""Settings of the whole machine that a run needs otherwise: changed where allowed, put back when nobody needs them.

One file in the state folder says what was found and who needs the change; it is read and written under a lock, so that
runs may overlap, and a run that was killed is forgotten by the next one or by a clean-up.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from testbed.emulation import state

MAX_MAP_COUNT = Path("/proc/sys/vm/max_map_count")
MAPS_NEEDED = 4_194_304
"""Each page that a process inside a user-mode kernel touches may be a mapping of its own on the machine."""


@dataclass
class Changed:
    """What a setting was, what it is since, and the run ids that need it so."""

    before: int
    since: int
    runs: list[str] = field(default_factory=list)


@contextmanager
def many_mappings(run_id: str) -> Iterator[str]:
    """As long as the context lasts processes may have many memory mappings; says in words what was done about it.

    Where this machine does not allow it, nothing is changed and the words say so.
    """
    said = take(run_id)
    try:
        yield said
    finally:
        give_back(run_id)


def take(run_id: str) -> str:
    """Raise the limit for a run, if it is too low; what was done, in words, empty if nothing."""
    with _locked():
        changed, now = _read(), int(MAX_MAP_COUNT.read_text())
        if now < MAPS_NEEDED:
            try:
                MAX_MAP_COUNT.write_text(str(MAPS_NEEDED))
            except OSError as error:
                return (
                    f"vm.max_map_count is {now} and cannot be changed here ({error.strerror}): large runs may fail; "
                    f"remedy: sysctl vm.max_map_count={MAPS_NEEDED}"
                )
            changed = Changed(now, MAPS_NEEDED, changed.runs if changed else [])
        if changed is None:
            return ""
        changed.runs.append(run_id)
        _write(changed)
        return f"vm.max_map_count: {changed.before} → {changed.since} until the run ends"


def give_back(run_id: str = "") -> bool:
    """A run needs it no more; with the last one that lives, what was found is put back. Whether that was done.

    A value that somebody else has set in the meantime stays.
    """
    if not _file().exists():
        return False
    with _locked():
        changed = _read()
        if changed is None:
            return False
        living = state.living_runs() - {run_id}
        changed.runs = [each for each in changed.runs if each in living]
        if changed.runs:
            _write(changed)
            return False
        _file().unlink()
        if int(MAX_MAP_COUNT.read_text()) != changed.since:
            return False
        MAX_MAP_COUNT.write_text(str(changed.before))
        return True


def _file() -> Path:
    return state.STATE_ROOT / "settings.json"


def _read() -> Changed | None:
    try:
        return Changed(**json.loads(_file().read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(changed: Changed) -> None:
    unfinished = _file().with_name(".settings.json.unfinished")
    unfinished.write_text(json.dumps(asdict(changed)))
    unfinished.replace(_file())


@contextmanager
def _locked() -> Iterator[None]:
    state.make_state_root()
    descriptor = os.open(state.STATE_ROOT / "settings.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
