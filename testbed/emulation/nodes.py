"""Mininet's hosts, switches and links, as this project uses them: made over netlink, never through a shell.

The objects are Mininet's own, so whoever knows Mininet can script against `bed.net`; only the slow and the
host-wide parts of setting up and taking down are left out. `fixLimits`, which writes sysctls of the host, never runs.
"""

from __future__ import annotations

import os
import threading
from subprocess import Popen
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Node, OVSSwitch

from testbed.emulation.openvswitch import PROTOCOL
from testbed.emulation.processes import marked_environment
from topologies import RingroadError

SHELL_READY_S = 10.0
"""It takes some 20 ms; a machine that needs longer than this is no testbed."""

PROMPT = b"\x7f"
"""What Mininet's shells prompt with."""


class _MarkedNode(Node):
    """A node whose processes carry the run id; `run_id` comes as a Mininet parameter."""

    def _popen(self, cmd: list[str], **params: Any) -> Popen:
        params["env"] = marked_environment(self.params["run_id"], params.get("env"))
        return super()._popen(cmd, **params)

    def startShell(self, mnopts: str | None = None) -> None:
        """As Mininet's, which waits for the shell's prompt for ever. RingroadError if it does not come."""
        prompted = threading.Event()
        silent: list[str] = []

        def prompt_instead() -> None:
            if not prompted.wait(SHELL_READY_S):
                silent.append(self.name)
            while not prompted.wait(0.05):
                os.write(self.slave, PROMPT)

        thread = threading.Thread(target=prompt_instead, name=f"prompt of {self.name}", daemon=True)
        thread.start()
        try:
            super().startShell(mnopts)
        finally:
            prompted.set()
            thread.join()
        if silent:
            self.shell.kill()
            self.cleanup()
            raise RingroadError(
                f"no network namespace could be made: mnexec did not start {self.name} within {SHELL_READY_S:g} s",
                "try: mnexec -n true; ringroad doctor says what this machine can do",
            )


class SiteHost(_MarkedNode, Host):
    """The host of a site: a network namespace with one interface, `eth0`."""


class SiteSwitch(_MarkedNode, OVSSwitch):
    """The bridge of a site. Made and removed together with all others in one OVS transaction, not by itself."""

    def dpctl(self, *args: str) -> str:
        """Run ovs-ofctl in the one OpenFlow version that the bridge speaks."""
        return self.cmd("ovs-ofctl", "-O", PROTOCOL, args[0], self, *args[1:])

    def start(self, controllers: list[Any]) -> None:
        """Nothing: the bridge exists before Mininet hears of it."""

    def stop(self, deleteIntfs: bool = True) -> None:
        """Nothing: the bridge is removed with all others."""


class KnownInterface(Intf):
    """An interface that exists already and is configured: Mininet only takes note of it."""

    def config(self, ip: str | None = None, prefix_length: int | None = None, **_: Any) -> dict[str, Any]:
        """Note the address; touch nothing."""
        self.ip, self.prefixLen = ip, prefix_length
        return {}


class KnownLink(Link):
    """A veth pair that exists already."""

    @classmethod
    def makeIntfPair(cls, *_: Any, **__: Any) -> None:
        """Nothing: both ends exist."""


def empty_mininet() -> Mininet:
    """A Mininet with nothing in it that has not touched the host's sysctls."""
    Mininet.inited = True
    return Mininet(controller=None, build=False, switch=SiteSwitch, host=SiteHost, link=KnownLink, intf=KnownInterface)
