"""What a run could leave on the host, as a value that can be compared."""

import json
import os
import subprocess
from pathlib import Path

STATE_ROOT = Path("/run/ringroad")


def host_state():
    """Interfaces, qdiscs, namespaces, bridges, priorities, sysctls, state folders, and processes of runs."""
    return {
        "interfaces": sorted(i.name for i in Path("/sys/class/net").iterdir() if i.name != "ovs-netdev"),
        "qdiscs": sorted(
            f"{q['dev']} {q['kind']}"
            for q in json.loads(_said("tc", "-json", "qdisc", "show"))
            if q["dev"] != "ovs-netdev"
        ),
        "namespaces": sorted(path.name for path in Path("/run/netns").glob("*")),
        "network namespaces in use": _namespaces_in_use(),
        "precedence of the switches": _scheduling("ovs-vswitchd"),
        "bridges": sorted(_said("ovs-vsctl", "--timeout=10", "list-br").split()),
        "sysctls": {
            str(path): path.read_text()
            for folder in ("/proc/sys/net/ipv4", "/proc/sys/net/core")
            for path in sorted(Path(folder).glob("*"))
            if path.is_file() and path.stat().st_mode & 0o400 and path.name != "netdev_rss_key"
        },
        "state": sorted(folder.name for folder in STATE_ROOT.glob("*") if folder.is_dir()),
        "processes": marked_processes(),
    }


def marked_processes():
    """Command lines of all processes that belong to some run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"RINGROAD_RUN=" in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return sorted(found)


def _namespaces_in_use():
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(link.readlink()))
        except OSError:
            continue
    return sorted(found)


def _scheduling(command):
    """Policy and real-time priority of every thread of the processes of a name, each once: threads come and go."""
    pids = subprocess.run(["pidof", command], capture_output=True, text=True).stdout.split()
    found = set()
    for thread in (int(folder.name) for pid in pids for folder in Path(f"/proc/{pid}/task").iterdir()):
        try:
            found.add((os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority))
        except ProcessLookupError:
            continue
    return sorted(found)


def _said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
