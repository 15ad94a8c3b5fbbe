"""What the first process inside a user-mode kernel makes of the bare kernel: mounts, modules, Open vSwitch, the end.

The root is the machine's own file system, read-only. Everything that programs write to otherwise is memory of the
user-mode kernel, except for the folders that a job names.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from contextlib import suppress
from pathlib import Path

MS_NOSUID, MS_NODEV, MS_BIND = 2, 4, 4096
POWER_OFF = 0x4321FEDC
"""RB_POWER_OFF of reboot(2)."""

MEMORY_FOLDERS = ("/etc/openvswitch", "/var/log/openvswitch", "/var/lib/openvswitch")
TEMPORARY, BELOW = "/tmp", "/run/tmp-of-the-machine"
MODULES_ROOT = "/run/modules"
NEEDED_MODULES = ("openvswitch", "sch_netem", "sch_tbf", "sch_ingress", "cls_bpf", "act_mirred", "veth", "tcp_bbr")
DATABASE, SOCKET = "/run/openvswitch/conf.db", "/run/openvswitch/db.sock"
OPEN_VSWITCH_S = 30.0
FIRST = ("chrt", "--rr", "3")
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2). OSError if the kernel refuses."""
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def mount_everything() -> None:
    """The kernel's own file systems, and memory where programs expect to write."""
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    if not Path("/dev/ttyS0").exists() or "/dev devtmpfs" not in Path("/proc/mounts").read_text():
        mount("devtmpfs", "/dev", "devtmpfs")
    for folder in ("/dev/pts", "/dev/shm"):
        Path(folder).mkdir(exist_ok=True)
    mount("devpts", "/dev/pts", "devpts", options="ptmxmode=666")
    for folder in ("/dev/shm", "/run", *MEMORY_FOLDERS):
        if Path(folder).is_dir():
            mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV)
    for folder in ("/run/openvswitch", f"{MODULES_ROOT}/lib/modules"):
        Path(folder).mkdir(parents=True)
    _cover(TEMPORARY, BELOW)


def _cover(folder: str, below: str) -> None:
    """Memory over a folder, through which all that lies in it is still seen, read-only, under its own name."""
    Path(below).mkdir()
    mount(folder, below, "", MS_BIND)
    mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV)
    for entry in os.scandir(below):
        place = Path(folder, entry.name)
        with suppress(FileNotFoundError):  # Others make and remove theirs at any time.
            if entry.is_dir(follow_symlinks=False):
                place.mkdir()
                mount(entry.path, str(place), "", MS_BIND)
            else:
                place.symlink_to(entry.path)


def mount_writable(folder: str) -> None:
    """The machine's own folder, writable, where it is anyway. OSError if it cannot be mounted."""
    wanted = Path(folder).stat().st_ino
    # Linux 6.11 and later want the option named, earlier ones take the text as it is.
    for options in (folder, f"hostfs={folder}"):
        mount("hostfs", folder, "hostfs", options=options)
        if Path(folder).stat().st_ino == wanted:
            return
        _libc.umount2(folder.encode(), 0)
    raise OSError(0, "the kernel mounts another folder", folder)


def load_modules(folder: str) -> None:
    """Load what an emulated WAN needs from `folder`, and let the kernel load the rest itself when it is asked for."""
    link = Path(MODULES_ROOT) / "lib" / "modules" / os.uname().release
    link.symlink_to(folder)
    loader = Path("/run/modprobe")
    loader.write_text(f'#!/bin/sh\nexec /sbin/modprobe --dirname {MODULES_ROOT} "$@"\n')
    loader.chmod(0o755)
    Path("/proc/sys/kernel/modprobe").write_text(str(loader))
    subprocess.run([loader, "--all", *NEEDED_MODULES], check=True)


def start_open_vswitch(first: bool) -> None:
    """A new, empty one. CalledProcessError or TimeoutExpired if it does not start.

    With `first` it goes before all other programs: on one CPU its BFD would else take links for dead while they work.
    """
    server = ["ovsdb-server", DATABASE, f"--remote=punix:{SOCKET}"]
    daemon = ["--detach", "--no-chdir", "--pidfile", "--log-file", "-vconsole:off", "-vsyslog:off"]
    for command in (
        ["ovsdb-tool", "create", DATABASE, SCHEMA],
        [*server, *daemon],
        ["ovs-vsctl", "--no-wait", "init"],
        [*(FIRST if first else ()), "ovs-vswitchd", f"unix:{SOCKET}", "--mlockall", *daemon],
    ):
        subprocess.run(command, check=True, timeout=OPEN_VSWITCH_S, stdin=subprocess.DEVNULL)


def power_off() -> None:
    """The end of the kernel; does not return."""
    with suppress(OSError):
        os.sync()
    _libc.reboot(POWER_OFF)
