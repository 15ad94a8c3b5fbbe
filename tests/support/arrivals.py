"""Waiting until packets of a flow arrive in a DC."""

from pathlib import Path

from waiting import eventually

from testbed.emulation.dc import Dc

SOME = 100


def wait_for_packets(dc: Dc) -> None:
    """Until the kernel of that DC has received some more packets than it had. Switches' own never come there."""
    before = _received(dc)
    eventually(lambda: _received(dc) >= before + SOME)


def _received(dc: Dc) -> int:
    table = Path(f"/proc/{dc.netns_pid}/net/dev").read_text().splitlines()
    line = next(line for line in table if line.strip().startswith("eth0:"))
    return int(line.partition(":")[2].split()[1])
