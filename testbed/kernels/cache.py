"""Where things are kept that are made once for a machine and a user: `ringroad` in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder (XDG_CACHE_HOME, else ~/.cache), made if it is not there. OSError if it cannot be made."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(base) if base.startswith("/") else Path.home() / ".cache") / "ringroad"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
