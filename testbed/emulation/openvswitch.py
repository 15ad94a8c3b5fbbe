"""Open vSwitch through its own command line: pure functions build what would be run, then it is one transaction.

Every call has a time limit, so that a dead daemon is an error and not a hang. It knows nothing of Mininet.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.emulation.plan import HOST_PORT, MTU_BYTES, OWNER_LABEL, NetworkPlan
from testbed.emulation.processes import Process, marked_environment, start_ticks
from topologies import RingroadError

TIMEOUT_S = 15
COUNTS_CPUS_AT_S = 10.5
DAEMONS = ("ovsdb-server", "ovs-vswitchd")
PROTOCOL = "OpenFlow13"
RECONNECT_MS = 1000
RUN_FOLDER = Path("/var/run/openvswitch")
LOG_FOLDER = Path("/var/log/openvswitch")
INSTALL_REMEDY = "install it: apt-get install openvswitch-switch (scripts/setup does that)"
START_REMEDY = "start it: service openvswitch-switch start (scripts/setup does that)"


class OpenVSwitchError(RingroadError):
    """Open vSwitch is not there, does not run, or refused a command."""


def bridge_commands(plan: NetworkPlan, datapath: str) -> list[list[str]]:
    """One transaction that makes every bridge and port of a run. `datapath` is `system` (kernel) or `netdev`."""
    commands = []
    for site in plan.sites.values():
        commands += [
            ["add-br", site.switch],
            ["set", "Bridge", site.switch, f"datapath_type={datapath}", "fail_mode=secure", f"protocols={PROTOCOL}"],
            ["set", "Bridge", site.switch, f"other_config:datapath-id={site.dpid:016x}"],
            ["set", "Bridge", site.switch, "other_config:disable-in-band=true"],
            ["set", "Bridge", site.switch, f"external_ids:{OWNER_LABEL}={plan.run_id}"],
            ["set", "Interface", site.switch, f"mtu_request={MTU_BYTES}"],
            *_port_commands(site.switch, site.host_port, HOST_PORT),
        ]
    for port in plan.ports.values():
        commands += _port_commands(port.switch, port.interface, port.number)
    return commands


def _port_commands(bridge: str, interface: str, number: int) -> list[list[str]]:
    return [
        ["add-port", bridge, interface],
        ["set", "Interface", interface, f"ofport_request={number}", f"mtu_request={MTU_BYTES}"],
    ]


def controller_commands(bridges: Iterable[str], port: int) -> list[list[str]]:
    """One transaction that points all bridges at the controller on 127.0.0.1:`port`, and retries every second."""
    commands = []
    for bridge in bridges:
        commands += [
            ["set-controller", bridge, f"tcp:127.0.0.1:{port}"],
            ["set", "Controller", bridge, f"max_backoff={RECONNECT_MS}", "connection_mode=out-of-band"],
        ]
    return commands


def deletion_commands(bridges: Iterable[str]) -> list[list[str]]:
    """One transaction that removes bridges with all their ports; those that are gone already do not matter."""
    return [["--if-exists", "del-br", bridge] for bridge in bridges]


def vsctl(commands: Iterable[list[str]], *, wait: bool = True, run_id: str | None = None) -> str:
    """Run one ovs-vsctl transaction; what it printed. With `wait` it returns once ovs-vswitchd has done it all.

    With `run_id` the command carries the mark of the run, so that a clean-up ends it before it looks for bridges.
    """
    arguments = ["ovs-vsctl", f"--timeout={TIMEOUT_S}", *([] if wait else ["--no-wait"])]
    for command in commands:
        arguments += ["--", *command]
    if len(arguments) == 2 + (not wait):
        return ""
    return run(arguments, marked_environment(run_id) if run_id else None)


def run(arguments: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Run one of Open vSwitch's tools. OpenVSwitchError names what is missing or what it said."""
    if shutil.which(arguments[0]) is None:
        raise OpenVSwitchError("Open vSwitch is not installed", INSTALL_REMEDY)
    try:
        # A session of its own, so that a Ctrl-C that ends the run does not end the command that cleans up after it.
        done = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S + 5,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise OpenVSwitchError(f"Open vSwitch does not answer: {arguments[0]}", START_REMEDY) from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise OpenVSwitchError(
            f"{arguments[0]} failed: {said[-1] if said else f'exit code {done.returncode}'}",
            START_REMEDY if not is_running() else "",
        )
    return done.stdout


def wait_until_it_counts() -> None:
    """Right after the boot of a machine: Open vSwitch counts the CPUs when the clock is 10 s past the last count, at 0.

    A bridge that is made before then is given no thread that receives, and BFD does not come up.
    """
    time.sleep(max(0.0, COUNTS_CPUS_AT_S - time.monotonic()))


def send_one_packet(bridge: str, port: int) -> None:
    """Have a bridge send a frame that nobody understands (IEEE 802's local experimental EtherType) out of a port."""
    frame = "02" * 12 + "88b5" + "00" * 46
    action = f"in_port=CONTROLLER, packet={frame}, actions=output:{port}"
    run(["ovs-ofctl", "-O", PROTOCOL, "packet-out", bridge, action])


def labelled_bridges() -> dict[str, str]:
    """Run id of every bridge that carries one, by name of the bridge."""
    table = ["--bare", "--no-headings", "--format=table", "--columns=name,external_ids"]
    query = ["find", "Bridge", f"external_ids:{OWNER_LABEL}!=''"]
    listed = run(["ovs-vsctl", f"--timeout={TIMEOUT_S}", "--no-wait", *table, *query])
    found = {}
    for line in listed.splitlines():
        name, *labels = line.split()
        for label in labels:
            key, _, value = label.partition("=")
            if key == OWNER_LABEL:
                found[name] = value
    return found


def switch_daemon_pid() -> int | None:
    """Pid of ovs-vswitchd, or None if it does not run."""
    return daemon_pid("ovs-vswitchd")


def is_running() -> bool:
    """Whether both daemons of Open vSwitch are alive."""
    return all(daemon_pid(daemon) is not None for daemon in DAEMONS)


def check_running() -> None:
    """OpenVSwitchError, with what to do, unless Open vSwitch is installed and both its daemons run."""
    if shutil.which("ovs-vsctl") is None:
        raise OpenVSwitchError("Open vSwitch is not installed", INSTALL_REMEDY)
    for daemon in DAEMONS:
        if daemon_pid(daemon) is None:
            raise OpenVSwitchError(f"Open vSwitch does not run: no {daemon}", START_REMEDY)


def daemons() -> list[Process]:
    """Both daemons, to be watched. OpenVSwitchError if one does not run."""
    found = []
    for name in DAEMONS:
        pid = daemon_pid(name)
        ticks = start_ticks(pid) if pid is not None else None
        if pid is None or ticks is None:
            raise OpenVSwitchError(f"{name} has died", START_REMEDY)
        found.append(Process(name, pid, ticks, LOG_FOLDER / f"{name}.log"))
    return found


def daemon_pid(name: str) -> int | None:
    """Pid of one of `DAEMONS`, or None if it does not run."""
    try:
        pid = int((RUN_FOLDER / f"{name}.pid").read_text())
        command = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return None
    return pid if command == name else None
