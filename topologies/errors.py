"""The errors that people see: each says what is wrong, where, and what to do about it.

Everything that a person can cause ends as a `RingroadError`; the command line prints it without a traceback.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from difflib import get_close_matches

Place = tuple[str | int, ...]
"""Where in a file: `("links", 3, "rate")`."""

MAX_SHOWN = 200
"""Characters of a value that a message quotes."""


class RingroadError(Exception):
    """Something a person can act on. `remedy` says how; `exit_code` is what the command line returns."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message if not remedy else f"{message}\n  remedy: {remedy}")
        self.message = message
        self.remedy = remedy


class InputError(RingroadError):
    """A file or argument that a person gave is wrong: names the file, the place in it, the value, the remedy."""

    exit_code = 2

    def __init__(
        self, message: str, *, file: str = "", place: str = "", value: object = None, remedy: str = ""
    ) -> None:
        where = ": ".join(part for part in (file, place) if part)
        got = "" if value is None else f" (got {shown(value)})"
        super().__init__(f"{where}: {message}{got}" if where else f"{message}{got}", remedy)
        self.file, self.place, self.value = file, place, value


def refused_by_system(error: OSError, what: str) -> RingroadError:
    """What the system refused, in a person's words: no space, no permission, a program or a folder that is missing."""
    place = f"{error.filename}: " if error.filename is not None else ""
    remedies = {
        errno.ENOSPC: "free some space there, then try again",
        errno.EDQUOT: "free some space there, then try again",
        errno.EROFS: "make it writable: mount -o remount,rw …",
        errno.EACCES: "run it as root: sudo .venv/bin/ringroad …",
        errno.EPERM: "run it as root: sudo .venv/bin/ringroad …",
        errno.ENOENT: "scripts/setup installs what is needed; ringroad doctor says what is missing",
        errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
        errno.ENFILE: "close other programs: the machine has too many files open",
    }
    remedy = remedies.get(error.errno or 0, "ringroad doctor says what this machine can do")
    return RingroadError(f"{what}: {place}{error.strerror or error}", remedy)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in what a person gave, and what would be right; several make one InputError."""

    place: Place
    message: str
    value: object = None
    remedy: str = ""

    def error(self, file: str = "") -> InputError:
        """This fault alone as an error; `file` may end in `:line`."""
        return InputError(self.message, file=file, place=show_place(self.place), value=self.value, remedy=self.remedy)


def show_place(place: Place) -> str:
    """`links[3].rate`: for people; list positions count from 0, as everywhere in YAML tools."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def shown(value: object) -> str:
    """A value as people see it in a message: never longer than a line or two, whatever somebody wrote."""
    if isinstance(value, int) and value.bit_length() > MAX_SHOWN:
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def did_you_mean(wrong: str, known: list[str], otherwise: str = "") -> str:
    """A remedy for a name that does not exist: the nearest known name, or all of them when they are few.

    `otherwise`: what may be given instead of a known name, as in "give the path of a WAN file".
    """
    near = get_close_matches(wrong, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?" + (f" Or {otherwise}" if otherwise else "")
    more = " …" if len(known) > 20 else ""
    return f"known: {', '.join(sorted(known)[:20])}{more}" + (f"; or {otherwise}" if otherwise else "")
