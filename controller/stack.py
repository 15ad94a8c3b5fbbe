"""Chooses Ryu or os-ken, once for the process, and mends what both need before they work here.

They are one code base with two names; everything else of ours asks `chosen()` and never imports either by name.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from controller.settings import STACKS

OPENFLOW_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Stack:
    """The modules of the framework that are used."""

    name: str
    app_base: type
    app_manager: ModuleType
    controller: ModuleType
    handler: ModuleType
    hub: ModuleType
    messages: ModuleType
    ofp_event: ModuleType
    ofproto: ModuleType
    parser: ModuleType


_chosen: Stack | None = None


def choose(name: str) -> Stack:
    """Import the framework; afterwards `chosen` gives it. Once a process."""
    global _chosen
    assert name in STACKS and _chosen is None
    # os-ken's native hub loses switches and kills apps silently; eventlet is what Ryu has been run on for ten years.
    os.environ["OSKEN_HUB_TYPE"] = "eventlet"
    # eventlet takes pyOpenSSL if it can, and Debian's breaks on a newer `cryptography`. There is no TLS here.
    sys.modules.setdefault("OpenSSL", None)  # type: ignore[arg-type]
    # It also warns new projects off itself; both frameworks are built on it, so here the warning has no reader.
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    wsgi = importlib.import_module("eventlet.wsgi")
    if not hasattr(wsgi, "ALREADY_HANDLED"):
        # Removed from eventlet in 0.31; whatever imports Ryu's wsgi module asks for it.
        wsgi.ALREADY_HANDLED = object()
    modules = {
        "app_manager": "base.app_manager",
        "controller": "controller.controller",
        "handler": "controller.handler",
        "hub": "lib.hub",
        "ofp_event": "controller.ofp_event",
        "messages": "ofproto.ofproto_parser",
        "ofproto": "ofproto.ofproto_v1_3",
        "parser": "ofproto.ofproto_v1_3_parser",
    }
    loaded = {ours: importlib.import_module(f"{name}.{theirs}") for ours, theirs in modules.items()}
    app_base = getattr(loaded["app_manager"], {"ryu": "RyuApp", "os_ken": "OSKenApp"}[name])
    _chosen = Stack(name, app_base, **loaded)
    logging.getLogger(name).setLevel(logging.WARNING)
    return _chosen


def chosen() -> Stack:
    """The framework of this process; `choose` comes first."""
    assert _chosen is not None, "choose a stack first"
    return _chosen


def green(plain: socket.socket) -> Any:
    """The same socket for green threads: what would block lets the others run."""
    return importlib.import_module("eventlet.greenio").GreenSocket(plain)


def wait_readable(file_descriptor: int) -> None:
    """Let the other green threads run until there is something to read."""
    importlib.import_module("eventlet.hubs").trampoline(file_descriptor, read=True)


def every(period_s: float, call: Callable[[], None]) -> None:
    """Call at once and then again and again from the event loop, as long as that goes round."""

    def _for_ever() -> None:
        while True:
            call()
            chosen().hub.sleep(period_s)

    chosen().hub.spawn(_for_ever)


def aside(call: Callable[[], None]) -> None:
    """Call from a thread of the system's; the other green threads run until it is over. What it raises is raised."""
    importlib.import_module("eventlet.tpool").execute(call)


def open_port(port: int) -> socket.socket:
    """A port on loopback (0: the kernel picks one), open but not served yet."""
    return socket.create_server((OPENFLOW_HOST, port), backlog=128)


def serve_openflow(listener: socket.socket) -> None:
    """Have the framework serve an open port.

    It takes port 0 for its default pair of ports on all interfaces, and would bind too late for anybody to learn the
    number without a race; so it is handed a socket that listens already.
    """
    stack = chosen()

    class _Listening(stack.hub.StreamServer):
        def __init__(self, address: tuple[str, int], handle: Any) -> None:
            self.server, self.handle = green(listener), handle

    configuration = importlib.import_module(f"{stack.name}.cfg").CONF
    configuration(args=[], project=stack.name, default_config_files=[])
    configuration.set_override("ofp_listen_host", OPENFLOW_HOST)
    configuration.set_override("ofp_tcp_listen_port", listener.getsockname()[1])
    stack.controller.StreamServer = _Listening


def examine_messages(
    examine: Callable[[Any, int, int, bytes], bool], length_to_wait_for: Callable[[int, int, int], int]
) -> None:
    """Have every message looked at before it is parsed: (connection, version, type, data) → whether to parse it.

    A message that is not parsed has not come, as far as the framework knows. How much of it has to be there first is
    (version, type, length as it says itself) → length.
    """
    messages = chosen().messages
    parse, read_header = messages.msg, messages.header

    def _header(data: bytes) -> tuple[int, int, int, int]:
        version, kind, length, xid = read_header(data)
        return version, kind, length_to_wait_for(version, kind, length), xid

    def _msg(datapath: Any, version: int, kind: int, length: int, xid: int, data: bytes) -> Any:
        if not examine(datapath, version, kind, bytes(data[:length])):
            return None
        return parse(datapath, version, kind, length, xid, data)

    messages.msg, messages.header = _msg, _header


def start_app(module: str, **contexts: Any) -> None:
    """Load the app that a module defines and start it with the framework's own; `contexts` reach its constructor."""
    manager = chosen().app_manager.AppManager.get_instance()
    manager.load_apps([module])
    manager.instantiate_apps(**contexts)
