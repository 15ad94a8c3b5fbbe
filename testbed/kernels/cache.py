"""Where things are kept that are made once for a machine and a user: `ringroad` in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_path() -> Path:
    """Where the folder is (in XDG_CACHE_HOME, else in ~/.cache), or would be."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "ringroad"


def cache_folder() -> Path:
    """The folder, made if it is not there. OSError if it cannot be made."""
    folder = cache_path()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
