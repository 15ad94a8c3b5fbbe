"""What Open vSwitch holds, as text that can be compared."""

from __future__ import annotations

import subprocess

from testbed.bed import Testbed


def flows(bed: Testbed) -> list[str]:
    """Every rule of every switch without its counters."""
    lines = []
    for site in bed.plan.sites.values():
        command = ["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", site.switch]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
        lines += [f"{site.site} {line.strip()}" for line in done.stdout.splitlines()]
    return sorted(lines)
