"""Makes torch load `workers.stand_in` in any Python that a program runs, by torch's own mechanism for extensions.

A folder in PYTHONPATH that looks like an installed package with an entry point of the group `torch.backends`. It lies
in the state folder of the run and goes with it.
"""

from __future__ import annotations

from pathlib import Path

NAME = "ringroad_stand_in"


def make_plugin(folder: Path) -> Path:
    """Write it below `folder`; the path to search. Idempotent."""
    package = folder / "plugin" / f"{NAME}-1.dist-info"
    package.mkdir(parents=True, exist_ok=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[torch.backends]\n{NAME} = workers.stand_in:autoload\n")
    return package.parent
