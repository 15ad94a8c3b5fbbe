"""The user-mode kernels of this machine: which there are, and what each is started with. Boots nothing."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed.kernels import exactkernel, xstate
from testbed.kernels.choosing import Kernel
from topologies.errors import RingroadError

DEBIAN_BINARY = Path("/usr/bin/linux.uml")
DEBIAN_MODULES = Path("/usr/lib/uml/modules")
INSTALL_REMEDY = "install it: apt-get install user-mode-linux (scripts/setup does that)"
VERSION_TIMEOUT_S = 10.0

REPEATABLE = (
    "time-travel=inf-cpu",
    f"time-travel-start={1767225600 * 10**9}",
    "norandmaps",
)
"""What makes two runs of the exact kernel the same, with a seed: the clock's start (2026-01-01), and addresses that are
not drawn at all."""
NO_SEED = 1
"""What chance is drawn from where nobody gives a seed."""
SEED_BITS = 64


@dataclass(frozen=True)
class Image:
    """A user-mode kernel. `modules` is the folder of its modules, None where all is built in.

    `preload` is a library that the binary needs on this processor. In virtual time only waiting takes time.
    """

    kernel: Kernel
    binary: Path
    version: str
    modules: Path | None = None
    preload: Path | None = None
    arguments: tuple[str, ...] = ()

    @property
    def virtual_time(self) -> bool:
        """Whether its clock is its own."""
        return self.kernel is Kernel.EXACT


def why_not(kernel: Kernel) -> str:
    """Empty where this kernel can be started here, else why it cannot and what would help."""
    try:
        image(kernel)
    except RingroadError as error:
        return f"{error.message} ({error.remedy})"
    return ""


def image(kernel: Kernel, seed: int | None = None) -> Image:
    """The image of `uml` or `exact`. RingroadError with the remedy if there is none.

    All chance inside `exact` is drawn from `seed`; in real time nothing is.
    """
    if kernel is Kernel.EXACT:
        return _exact(seed)
    return _real_time()


def _exact(seed: int | None) -> Image:
    built = exactkernel.require()
    return Image(Kernel.EXACT, built.path, built.release, arguments=(*REPEATABLE, seeded(seed)))


def seeded(seed: int | None) -> str:
    """The kernel's option for a seed, of which it takes the lowest 64 bits; None is `NO_SEED`."""
    return f"time-travel-seed={(NO_SEED if seed is None else seed) % 2**SEED_BITS}"


def _real_time() -> Image:
    """Debian's; without it the exact kernel's program, which keeps real time unless it is told otherwise."""
    binary = DEBIAN_BINARY
    if not binary.exists():
        built = exactkernel.find()
        if built is None:
            raise RingroadError("Debian's user-mode kernel is not installed", INSTALL_REMEDY)
        return Image(Kernel.UML, built.path, built.release)
    version = version_of(binary)
    modules = DEBIAN_MODULES / version
    if not modules.is_dir():
        raise RingroadError(f"{binary} is {version}, and its modules are not in {modules}", INSTALL_REMEDY)
    return Image(Kernel.UML, binary, version, modules, xstate.preload())


def version_of(binary: Path) -> str:
    """What the binary says its version is. RingroadError if it is no user-mode kernel."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RingroadError(f"{binary} cannot be started: {error}", INSTALL_REMEDY) from error
    said = done.stdout.split()
    if done.returncode != 0 or len(said) != 1 or not said[0][0].isdigit():
        raise RingroadError(f"{binary} is no user-mode kernel: it has no version", INSTALL_REMEDY)
    return said[0]
