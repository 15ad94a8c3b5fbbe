"""Which kernel a WAN is emulated on, and why: what it needs, against what this machine has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from topologies.errors import RingroadError
from topologies.model import Wan


class Kernel(StrEnum):
    """What `--kernel` takes."""

    NATIVE = "native"
    UML = "uml"
    EXACT = "exact"
    AUTO = "auto"


MODES = {
    Kernel.NATIVE: "this machine's own kernel, in real time",
    Kernel.UML: "a user-mode kernel, in real time",
    Kernel.EXACT: "a user-mode kernel, in virtual time",
}
IMPAIRMENTS = {"delay_s": "delay", "jitter_s": "jitter", "loss": "loss", "reorder": "reordering"}
"""Properties of an edge that only netem can emulate, and their names for people."""


@dataclass(frozen=True)
class Needs:
    """What a WAN asks of a kernel: `impairments` in words, and TCP's congestion control (None: any)."""

    impairments: tuple[str, ...] = ()
    congestion_control: str | None = None


@dataclass(frozen=True)
class Offer:
    """What this machine has. `uml` and `exact` are empty where those kernels are there, else why they are not."""

    netem: bool
    congestion_controls: tuple[str, ...]
    uml: str = ""
    exact: str = ""


@dataclass(frozen=True)
class Choice:
    """The kernel that is taken (never `auto`), why, and what of the WAN cannot be emulated on it."""

    kernel: Kernel
    why: str
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = f"; WITHOUT {_and(self.missing)}" if self.missing else ""
        return f"{self.kernel.value} ({MODES[self.kernel]}): {self.why}{missing}"


def needs_of(wan: Wan, congestion_control: str | None = None) -> Needs:
    """What it takes to emulate this WAN as it is described."""
    found = (
        word
        for name, word in IMPAIRMENTS.items()
        if any(getattr(properties, name, 0.0) for properties in wan.edges.values())
    )
    return Needs(tuple(found), congestion_control)


def choose(asked: Kernel, needs: Needs, offer: Offer) -> Choice:
    """The kernel for what was asked. RingroadError if one was asked for by name that this machine does not have."""
    unavailable = {Kernel.UML: offer.uml, Kernel.EXACT: offer.exact}
    if asked in unavailable:
        if unavailable[asked]:
            raise RingroadError(f"--kernel {asked.value}: {unavailable[asked]}", "or leave --kernel out")
        return Choice(asked, "asked for")
    missing = lacking(needs, offer)
    if asked is Kernel.NATIVE:
        return Choice(Kernel.NATIVE, "asked for", missing)
    if not missing:
        return Choice(Kernel.NATIVE, "this machine's kernel has all that the WAN needs")
    here = f"the WAN needs {_and(missing)}, which this machine's kernel does not have"
    if not offer.uml:
        return Choice(Kernel.UML, here)
    return Choice(Kernel.NATIVE, f"{here}, and there is no other: {offer.uml}", missing)


def lacking(needs: Needs, offer: Offer) -> tuple[str, ...]:
    """What of the needs this machine's own kernel cannot do, in words."""
    missing = () if offer.netem else needs.impairments
    control = needs.congestion_control
    if control is not None and control not in offer.congestion_controls:
        missing += (f"congestion control {control}",)
    return missing


def _and(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
