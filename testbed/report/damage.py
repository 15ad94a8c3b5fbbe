"""What a damaged run folder leads to, told as damage: whoever reads one trusts that its lines are what a run writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from topologies.errors import RingroadError


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Inside, a value that is missing or of another kind than a run writes is a RingroadError that names `path`."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
        message = f"{path} is damaged: something in its files is not what a run writes ({error!r})"
        raise RingroadError(message, "restore the folder, or run again") from error
