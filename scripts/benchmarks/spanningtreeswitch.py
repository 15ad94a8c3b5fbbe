"""Ryu's own `simple_switch_stp_13` as a program, on 127.0.0.1: the peer that Ringroad is compared with.

`ryu-manager` does not start with today's eventlet; this starts the same app, unchanged, without it.
"""

from __future__ import annotations

import sys

from controller import stack


def main(port: int) -> None:
    """Serve until killed. Prints `ready` once the port is open."""
    stack.choose("ryu")
    listener = stack.open_port(port)
    stack.serve_openflow(listener)
    manager = stack.chosen().app_manager.AppManager.get_instance()
    manager.load_apps(["ryu.app.simple_switch_stp_13", "ryu.controller.ofp_handler"])
    contexts = manager.create_contexts()
    services = manager.instantiate_apps(**contexts)
    print("ready", listener.getsockname()[1], flush=True)
    stack.chosen().hub.joinall(services)


if __name__ == "__main__":
    main(int(sys.argv[1]))
