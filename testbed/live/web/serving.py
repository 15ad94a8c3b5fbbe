"""Serves a dashboard until it is over: an address that is bound before it is printed, a token, low priority.

Imports uvicorn and Starlette; only the verbs that show a page import this.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from testbed.live.web.app import make_app
from testbed.live.web.safety import Gate, new_token
from testbed.live.web.sources import Source
from topologies.errors import InputError, RingroadError

NICENESS = 10
"""The emulation comes first: the page may wait for a moment, packets may not."""
MAX_CONNECTIONS = 64
FIRST_REQUEST_S = 5.0
"""How long a connection may be open before it asks for something."""
MIN_TOKEN = 16
DEFAULT_LISTEN = "127.0.0.1:0"


@dataclass(frozen=True)
class Listen:
    """Where to listen; port 0 takes a free one."""

    address: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def url_host(self) -> str:
        """For an address to open: where all are listened on, this machine's own."""
        if ipaddress.ip_address(self.address).is_unspecified:
            return "127.0.0.1"
        return f"[{self.address}]" if ":" in self.address else self.address


def read_listen(text: str) -> Listen:
    """`8080`, `127.0.0.1`, `0.0.0.0:8080` or `[::1]:8080`. InputError for anything else: names are not looked up."""
    remedy = "give PORT, ADDRESS or ADDRESS:PORT, as in 8080, 0.0.0.0:8080 or [::1]:8080"
    address, _, port = ("127.0.0.1", "", text) if text.isdecimal() else _parted(text)
    try:
        ipaddress.ip_address(address)
        if not (port or "0").isdecimal():
            raise ValueError("not a port")
        number = int(port or 0)
    except ValueError as error:
        raise InputError("not an address to listen on", place="--listen", value=text, remedy=remedy) from error
    if not 0 <= number <= 65535:
        raise InputError(
            "no such port", place="--listen", value=number, remedy="a port is at most 65535; 0 is a free one"
        )
    return Listen(address, number)


def _parted(text: str) -> tuple[str, str, str]:
    if text.startswith("["):
        address, _, rest = text[1:].partition("]")
        return address, ":", rest.removeprefix(":")
    return (text, "", "") if text.count(":") > 1 else text.partition(":")  # type: ignore[return-value]


def read_token(file: Path) -> str:
    """The first line of a file. InputError if there is none that is hard to guess."""
    try:
        token = file.read_text(encoding="ascii").splitlines()[0].strip()
    except (OSError, ValueError, IndexError) as error:
        raise InputError(
            "no token can be read", place="--token-file", value=str(file), remedy="write one line into it"
        ) from error
    if len(token) < MIN_TOKEN or not token.isalnum():
        raise InputError(
            f"a token has at least {MIN_TOKEN} letters and digits, and nothing else",
            place="--token-file",
            value=str(file),
            remedy="make one with: head -c 18 /dev/urandom | xxd -p",
        )
    return token


def check_token_use(listen: Listen, *, without_token: bool) -> None:
    """InputError where somebody else could reach the dashboard and no token is asked for."""
    if without_token and not listen.loopback:
        raise InputError(
            "beyond this machine a dashboard asks for a token",
            place="--no-token",
            value=listen.address,
            remedy="leave --no-token out, or listen on 127.0.0.1",
        )


def serve(
    make_source: Callable[[], Source],
    listen: Listen,
    *,
    token: str | None = None,
    without_token: bool = False,
    announce: Callable[[str], None],
) -> None:
    """Block until a signal ends it, or the testbed that is shown is gone. `announce` gets the address, once it is open.

    RingroadError if the address cannot be had.
    """
    check_token_use(listen, without_token=without_token)
    listener = _bound(listen)
    port = listener.getsockname()[1]
    with listener:
        asked_for = None if without_token else token or new_token()
        gate = Gate(asked_for, listen.loopback, f"ringroad_{port}", socket.gethostname())
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
        asyncio.run(_serve(make_source, listener, gate, lambda: announce(_url(listen, port, gate))))


def _url(listen: Listen, port: int, gate: Gate) -> str:
    return f"http://{listen.url_host}:{port}/" + (f"?token={gate.token}" if gate.token else "")


def _bound(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((listen.address, listen.port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise RingroadError(
            f"cannot listen on {listen.address}, port {listen.port}: {error.strerror or error}",
            "choose another with --listen; port 0 takes a free one",
        ) from error
    return listener


async def _serve(
    make_source: Callable[[], Source], listener: socket.socket, gate: Gate, opened: Callable[[], None]
) -> None:
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    source = make_source()
    config = uvicorn.Config(
        make_app(source, gate),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        loop="asyncio",
        http=_Patient,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=16384,
    )
    server = _Server(config, opened)
    source.start()
    ending = asyncio.create_task(_end_with(source, server))
    await server.serve(sockets=[listener])
    source.stop()
    ending.cancel()


async def _end_with(source: Source, server: uvicorn.Server) -> None:
    """Pages are told that the testbed is gone, then nothing is left to show."""
    await source.ended.wait()
    await asyncio.sleep(0.2)
    server.should_exit = True


class _Patient(H11Protocol):
    """Gives up a connection that has asked nothing: who never had a token cannot keep the pages' places for long."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST_S, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """Tells when it has begun to answer."""

    def __init__(self, config: uvicorn.Config, opened: Callable[[], None]) -> None:
        super().__init__(config)
        self._opened = opened

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._opened()
