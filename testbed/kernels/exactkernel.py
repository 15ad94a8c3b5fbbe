"""The exact kernel as a file: which patch and configuration make it, where a built one is kept, whether one is there.

Builds nothing (see exactbuild.py) and boots nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed.kernels.cache import cache_path
from topologies.errors import RingroadError

SOURCE_PACKAGE = "linux-source-6.12"
"""The apt package with the source, of any of its security updates."""

PARTS = Path(__file__).with_name("recipe")
PATCH, CONFIG = PARTS / "time-travel.patch", PARTS / "config"
BUILD_COMMAND = "scripts/build-exact-kernel"
BUILD_COST = "5 to 10 minutes on two cores, 155 MB to download, 2.5 GB of disk while it builds and 12 MB afterwards"
NOTE, BINARY = "built.json", "linux"


@dataclass(frozen=True)
class ExactKernel:
    """A kernel that is built: the program that boots it, its release, and what it was made from."""

    path: Path
    release: str
    source_version: str
    recipe: str

    def save(self) -> None:
        """Write down beside the program what it is; a program without this is not finished."""
        note = asdict(self) | {"path": self.path.name}
        draft = self.path.with_name(f"{NOTE}.new")
        draft.write_text(json.dumps(note, indent=1) + "\n")
        draft.replace(self.path.with_name(NOTE))


def recipe() -> str:
    """Twelve hexadecimal digits that change with the patch or the configuration."""
    digest = hashlib.sha256()
    for part in (PATCH, CONFIG):
        digest.update(hashlib.sha256(part.read_bytes()).digest())
    return digest.hexdigest()[:12]


def kernels_folder() -> Path:
    """Where built kernels are kept, one folder for each source and recipe; it need not be there."""
    return cache_path() / "exact-kernel"


def entry_folder(source_version: str) -> Path:
    """Where the kernel from this version of the source and this recipe is kept, built or not."""
    return kernels_folder() / f"{source_version.replace('/', '_')}-{recipe()}"


def find() -> ExactKernel | None:
    """The one built last from today's patch and configuration, from whatever version of the source; None without."""
    found = []
    for note in kernels_folder().glob(f"*-{recipe()}/{NOTE}"):
        kernel = _read(note)
        if kernel is not None:
            found.append((note.stat().st_mtime, kernel))
    return max(found, key=lambda each: each[0])[1] if found else None


def require() -> ExactKernel:
    """As `find`. RingroadError, with what it would take, if there is none."""
    kernel = find()
    if kernel is None:
        raise RingroadError("the exact kernel is not built", f"run {BUILD_COMMAND}: {BUILD_COST}")
    return kernel


def _read(note: Path) -> ExactKernel | None:
    path = note.with_name(BINARY)
    try:
        said = json.loads(note.read_text())
        kernel = ExactKernel(path, said["release"], said["source_version"], said["recipe"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kernel if os.access(path, os.X_OK) else None
