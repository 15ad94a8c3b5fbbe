"""`python -m controller --config FILE`: runs the controller until SIGTERM, or until the process that started it ends.

This process opens both ports, plans, and keeps a worker going (see `watchdog`); the worker is the controller. On stdout
it writes one line, once the worker serves (see `client.wait_listening`); the log of both goes to stderr.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from controller import stack
from controller.memory import Memory
from controller.settings import ControllerConfig, load_config
from controller.state import Network
from controller.watchdog import Restart, Watchdog, wake_on_signals
from topologies.errors import RingroadError

LOG = logging.getLogger("controller")

GRACE_S = 2.0
"""How long an event loop that is stuck may keep the worker alive after its watchdog is gone."""

SIGNS_PER_SILENCE = 5
"""Signs of life in the time after which a worker without any is taken for stuck."""


class _MonotonicFormatter(logging.Formatter):
    """One line per event, with the clock that every record of a run carries."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{time.monotonic():.6f} {record.levelname.lower()} {super().format(record)}"


@dataclass(frozen=True)
class _Prepared:
    """What every worker finds ready: planned paths and open ports."""

    config: ControllerConfig
    network: Network
    openflow: socket.socket
    requests: socket.socket
    http: socket.socket | None
    memory: Memory

    @property
    def port(self) -> int:
        return self.openflow.getsockname()[1]

    @property
    def http_port(self) -> int | None:
        return None if self.http is None else self.http.getsockname()[1]


def main() -> int:
    """The process; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="what `save_config` wrote")
    arguments = parser.parse_args()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MonotonicFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        return _run(load_config(arguments.config))
    except RingroadError as error:
        print(f"controller: {error}", file=sys.stderr)
        return error.exit_code


def _run(config: ControllerConfig) -> int:
    # numpy's products are small here: threads for them would only contend with the switches for the cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    stack.choose(config.settings.stack)
    # Only now: these take the framework that was chosen. The worker imports nothing of its own.
    from controller import app, server  # noqa: F401
    from controller.engine import network_of
    from controller.policies import prepare

    openflow = _open_port(config.settings.listen_port, "listen_port")
    http = None if config.settings.http_port is None else _open_port(config.settings.http_port, "http_port")
    requests = server.listen(config.socket)
    memory = Memory(config.socket.with_suffix(".told"))
    try:
        memory.forget()
        network = network_of(config)
        network.prepare()
        prepare(config.settings.policy)
        # What is planned lives as long as the process: no collection has to look at it, and no worker to copy it.
        gc.collect()
        gc.freeze()
        prepared = _Prepared(config, network, openflow, requests, http, memory)

        def _work(give_sign: Callable[[], None], restart: Restart | None) -> int:
            return _be_controller(prepared, give_sign, restart)

        def _say_listening() -> None:
            print(json.dumps({"event": "listening", "port": prepared.port, "pid": os.getpid()}), flush=True)

        return Watchdog(_work, config.settings.watchdog_s, _say_listening).run()
    finally:
        requests.close()
        config.socket.unlink(missing_ok=True)
        memory.forget()


def _be_controller(prepared: _Prepared, give_sign: Callable[[], None], restart: Restart | None) -> int:
    """The worker's life."""
    from controller.channels import Channels
    from controller.engine import Engine
    from controller.server import Server

    wake = wake_on_signals()
    _watch_watchdog()
    config = prepared.config
    stack.serve_openflow(prepared.openflow)
    server = Server(prepared.requests, prepared.port, prepared.http_port, prepared.memory)
    channels = Channels()
    publish = [server.publish]
    engine = Engine(config, channels, lambda event: [tell(event) for tell in publish], network=prepared.network)
    server.engine = channels.engine = engine
    if restart is not None:
        server.restarts.append({"event": "restart", "at": restart.at, "cause": restart.cause, "count": restart.count})
        engine.recall(prepared.memory.recall())
    stack.start_app("controller.app", engine=engine, channels=channels, wiring=config.wiring)
    server.start()
    if prepared.http is not None:
        from controller.http import HttpServer

        http = HttpServer(prepared.http, engine, server.status, server.restarts)
        publish.append(http.publish)
        http.start()
    stack.every(config.settings.watchdog_s / SIGNS_PER_SILENCE, give_sign)
    LOG.info("listening port=%d stack=%s socket=%s", prepared.port, config.settings.stack, config.socket)
    stack.wait_readable(wake)
    LOG.info("ended by signal")
    return 0


def _open_port(port: int, name: str) -> socket.socket:
    try:
        return stack.open_port(port)
    except OSError as error:
        remedy = f"choose another {name}, or 0 to let the kernel pick one"
        raise RingroadError(f"cannot listen on port {port} of 127.0.0.1: {error.strerror}", remedy) from error


def _watch_watchdog() -> None:
    """End with the watchdog, from a thread outside the event loop, which may be stuck."""
    watchdog = os.pidfd_open(os.getppid())

    def _watch() -> None:
        select.select([watchdog], [], [])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_S)
        os._exit(1)

    threading.Thread(target=_watch, name="watchdog", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
