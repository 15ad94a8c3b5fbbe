"""What can this machine do? Each finding says what was found, and how to mend it where it can be mended.

Looks only; changes nothing, and needs neither root nor any of the heavy packages to say that they are missing.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal

from testbed.emulation import programs
from topologies.errors import RingroadError

SETUP = "run scripts/setup"
AS_ROOT = "sudo .venv/bin/ringroad doctor"
LEAST_CORES, LEAST_MEMORY_BYTES = 2, 4 * 2**30
MODULES = {
    "mininet": "apt-get install mininet, with a venv that sees the system's packages (scripts/setup does both)",
    "torch": SETUP,
    "pyroute2": SETUP,
    "numpy": SETUP,
    "matplotlib": SETUP,
}


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `bad`: no run is possible; `limited`: runs are, but not all that Ringroad can do."""

    name: str
    status: Literal["good", "limited", "bad"]
    found: str
    remedy: str = ""


def examine() -> list[Finding]:
    """Everything, in the order in which one would mend it. Takes about a second."""
    looks: list[Callable[[], Iterator[Finding]]] = [_user, _machine, _python, _programs, _modules, _stacks]
    looks += [_open_vswitch, _kernel, _other_kernels, _exact_kernel, _state]
    return [finding for look in looks for finding in look()]


def _user() -> Iterator[Finding]:
    if os.geteuid() == 0:
        yield Finding("user", "good", "root")
    else:
        yield Finding("user", "bad", f"uid {os.geteuid()}", "network namespaces need root: sudo .venv/bin/ringroad …")


def _machine() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    remedy = "give it two or more: on one, the machine and not the WAN sets the pace"
    yield _at_least("cores", cores >= LEAST_CORES, str(cores), remedy)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield _at_least("memory", memory >= LEAST_MEMORY_BYTES, f"{memory / 2**30:.1f} GiB", "give it 4 GiB or more")


def _python() -> Iterator[Finding]:
    found = f"{platform.python_version()} ({sys.executable})"
    good = sys.version_info[:2] == (3, 11)
    yield Finding("Python", "good" if good else "bad", found, "" if good else f"3.11 is needed: {SETUP} on Debian 12")


def _programs() -> Iterator[Finding]:
    for program in programs.PROGRAMS:
        path = shutil.which(program)
        remedy = "" if path else programs.remedy(program)
        yield Finding(program, "good" if path else "bad", path or "not found", remedy)


def _modules() -> Iterator[Finding]:
    for name, remedy in MODULES.items():
        there = find_spec(name) is not None
        yield Finding(
            name, "good" if there else "bad", _version(name) if there else "not installed", "" if there else remedy
        )


def _stacks() -> Iterator[Finding]:
    """Whether each OpenFlow stack loads: in a process of its own, since loading one changes the whole interpreter."""
    for stack, status in (("ryu", "bad"), ("os_ken", "limited")):
        script = f"from controller.stack import choose; choose({stack!r})"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            yield Finding(stack, "good", _version(stack.replace("_", "-")))
        else:
            said = done.stderr.strip().splitlines()
            yield Finding(stack, status, f"does not load: {said[-1] if said else 'no reason given'}", SETUP)


def _open_vswitch() -> Iterator[Finding]:
    from testbed.emulation import openvswitch

    try:
        openvswitch.check_running()
        found = openvswitch.run(["ovs-vsctl", "--version"]).splitlines()[0]
    except RingroadError as error:
        yield Finding("Open vSwitch", "bad", error.message, error.remedy)
    else:
        yield Finding("Open vSwitch", "good", f"runs; {found}")


def _kernel() -> Iterator[Finding]:
    if os.geteuid() != 0:
        yield Finding("kernel", "limited", "cannot be examined without root", AS_ROOT)
        return
    from testbed.emulation.capabilities import detect

    try:
        found = detect()
    except RingroadError as error:
        yield Finding("kernel", "bad", error.message, error.remedy)
        return
    yield Finding("kernel", "good", found.kernel)
    other = "use a kernel that has it, as Debian's own do, or a user-mode kernel: ringroad run --kernel uml"
    yield Finding("rates (tbf)", "good" if found.tbf else "bad", _has(found.tbf), "" if found.tbf else other)
    netem = "links have rates, but neither delay, jitter nor loss; " + other
    yield Finding("delay and loss (netem)", *_limited(found.netem), "" if found.netem else netem)
    yield Finding(
        "blackholes", *_limited(found.blackhole), "" if found.blackhole else f"no `blackhole` faults; {other}"
    )
    in_kernel = found.openvswitch_datapath == "system"
    datapath = "the kernel's" if in_kernel else "in user space: correct, but it costs CPU (a few Gbit/s in all)"
    yield Finding("Open vSwitch's datapath", "good" if in_kernel else "limited", datapath, "" if in_kernel else other)
    controls = f"{', '.join(found.congestion_controls)}; the host's own is {found.default_congestion_control}"
    cubic = "cubic" in found.congestion_controls
    remedy = "" if cubic else "modprobe tcp_cubic, or name another one in the experiment: congestion_control: reno"
    yield Finding("congestion control", "good" if cubic else "limited", controls, remedy)


def _other_kernels() -> Iterator[Finding]:
    from testbed.kernels import images
    from testbed.kernels.choosing import Kernel

    try:
        image = images.image(Kernel.UML)
    except (RingroadError, OSError) as error:
        yield Finding("user-mode kernel", "limited", str(error).partition("\n")[0], getattr(error, "remedy", ""))
    else:
        yield Finding("user-mode kernel", "good", f"{image.version} ({image.binary})")


def _exact_kernel() -> Iterator[Finding]:
    from testbed.kernels import exactkernel

    kernel = exactkernel.find()
    if kernel is None:
        remedy = f"{exactkernel.BUILD_COMMAND}: {exactkernel.BUILD_COST}"
        yield Finding("exact kernel", "limited", "not built: no runs in virtual time", remedy)
    else:
        yield Finding("exact kernel", "good", f"Linux {kernel.release}, from source {kernel.source_version}")


def _state() -> Iterator[Finding]:
    from testbed.emulation.state import owners

    found = owners()
    if found and os.geteuid() != 0:
        yield Finding("other runs", "limited", f"alive or killed: {', '.join(found)}", AS_ROOT)
        return
    dead = [run_id for run_id, owner in found.items() if owner is None or not owner.alive]
    living = [f"{run_id} (pid {owner.pid})" for run_id, owner in found.items() if owner is not None and owner.alive]
    if dead:
        yield Finding(
            "left-overs", "limited", f"of runs that were killed: {', '.join(dead)}", "sudo .venv/bin/ringroad clean"
        )
    if living:
        yield Finding("other runs", "limited", f"in progress: {', '.join(living)}", "wait for it: one run at a time")
    if not found:
        yield Finding("left-overs", "good", "none")


def _at_least(name: str, enough: bool, found: str, remedy: str) -> Finding:
    return Finding(name, "good" if enough else "limited", found, "" if enough else remedy)


def _has(there: bool) -> str:
    return "there" if there else "not there"


def _limited(there: bool) -> tuple[Literal["good", "limited"], str]:
    return ("good" if there else "limited"), _has(there)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "there"
