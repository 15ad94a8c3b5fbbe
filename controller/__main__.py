"""`python -m controller --config FILE`: runs the controller until SIGTERM, or until the process that started it ends.

On stdout it writes one line, once both its ports are open (see `client.wait_listening`); its log goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path

from controller import stack
from controller.settings import ControllerConfig, load_config
from topologies.errors import RingroadError

LOG = logging.getLogger("controller")

GRACE_S = 2.0
"""How long an event loop that is stuck may keep the process alive after its starter is gone."""


class _MonotonicFormatter(logging.Formatter):
    """One line per event, with the clock that every record of a run carries."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{time.monotonic():.6f} {record.levelname.lower()} {super().format(record)}"


def main() -> int:
    """The process; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="what `save_config` wrote")
    arguments = parser.parse_args()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MonotonicFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        _run(load_config(arguments.config))
    except RingroadError as error:
        print(f"controller: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(config: ControllerConfig) -> None:
    wake = _wake_on_signals()
    _watch_starter()
    stack.choose(config.settings.stack)
    # Only now: these take the framework that was chosen.
    from controller.channels import Channels
    from controller.engine import Engine
    from controller.server import Server

    port = _open_port(config.settings.listen_port)
    server = Server(config.socket, port)
    channels = Channels()
    engine = Engine(config, channels, server.publish)
    server.engine = channels.engine = engine
    stack.start_app("controller.app", engine=engine, channels=channels, wiring=config.wiring)
    server.start()
    try:
        print(json.dumps({"event": "listening", "port": port, "pid": os.getpid()}), flush=True)
        LOG.info("listening port=%d stack=%s socket=%s", port, config.settings.stack, config.socket)
        stack.wait_readable(wake)
        LOG.info("ended by signal")
    finally:
        server.close()


def _open_port(port: int) -> int:
    try:
        return stack.listen_openflow(port)
    except OSError as error:
        remedy = "choose another listen_port, or 0 to let the kernel pick one"
        raise RingroadError(f"cannot listen on port {port} of 127.0.0.1: {error.strerror}", remedy) from error


def _wake_on_signals() -> int:
    """A file descriptor that becomes readable when SIGTERM or SIGINT arrives, which an event loop can wait for."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return readable


def _watch_starter() -> None:
    """End with the process that started this one, from a thread outside the event loop, which may be stuck."""
    starter = os.pidfd_open(os.getppid())

    def _watch() -> None:
        select.select([starter], [], [])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_S)
        os._exit(1)

    threading.Thread(target=_watch, name="starter", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
