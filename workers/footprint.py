"""How much memory this process holds at most while something runs. Knows no tensors."""

from __future__ import annotations

from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"


class Footprint:
    """From its making on: `growth_bytes` is what the resident set has grown by at most (proc(5), VmRSS and VmHWM)."""

    def __init__(self) -> None:
        _CLEAR.write_text(_FORGET_PEAK)
        self._before = _resident_bytes("VmRSS:")

    def growth_bytes(self) -> int:
        """The peak so far above the start."""
        return max(0, _resident_bytes("VmHWM:") - self._before)


def _resident_bytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
