"""Connections between every two ranks of a group that are the backend's own: made with the group, beside gloo's.

Each rank listens for those after it and connects to those before it, with a connection of every kind.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import select
import selectors
import socket
import struct
import termios
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from torch.distributed import Store

_TOKEN_BYTES = 16
_HELLO = struct.Struct(f"!{_TOKEN_BYTES}sII")
"""The token of whom it is for, who says it, the number of its kind. Nothing else is read before a rank is known."""
_HANDSHAKES = 4
_MOST_S = 86400.0
"""A timeout may be so long that no system call takes it."""
_SIOCGIFADDR = 0x8915

Peers = dict[int, socket.socket]
"""By rank, all but this one's."""


@dataclass(frozen=True)
class Meeting:
    """`peers` has one connection to each other rank for every kind that was asked for; `names` are everybody's."""

    names: dict[int, str]
    peers: tuple[Peers, ...]


def meet(store: Store, rank: int, size: int, name: str, kinds: int, timeout: timedelta) -> Meeting:
    """Called by all ranks of the group together; blocks until this one is connected to every other.

    `store` is for this alone. RuntimeError that names who is missing after `timeout`.
    """
    deadline = time.monotonic() + min(timeout.total_seconds(), _MOST_S)
    token = secrets.token_bytes(_TOKEN_BYTES)
    peers: tuple[Peers, ...] = tuple({} for _ in range(kinds))
    with socket.create_server((own_address(), 0), backlog=size * kinds) as server:
        store.set(str(rank), json.dumps({"at": server.getsockname()[:2], "token": token.hex(), "name": name}))
        everybody = {other: json.loads(store.get(str(other))) for other in range(size)}
        before = [(other, kind) for other in range(rank) for kind in range(kinds)]
        called = [(_call(tuple(everybody[other]["at"]), other), other, kind) for other, kind in before]
        for connection, other, kind in called:
            hello = _HELLO.pack(bytes.fromhex(everybody[other]["token"]), rank, kind)
            _greet(connection, hello, other, deadline)
            peers[kind][other] = connection
        wanted = {(other, kind) for other in range(rank + 1, size) for kind in range(kinds)}
        for connection, other, kind in _welcomed(server, token, wanted, deadline):
            peers[kind][other] = connection
    connections = [by_rank[other] for by_rank in peers for other in sorted(by_rank)]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _open.add(connection)
    _shake_hands(connections, deadline)
    return Meeting({other: str(about["name"]) for other, about in everybody.items()}, peers)


def _shake_hands(connections: Sequence[socket.socket], deadline: float) -> None:
    """A byte to everybody and one from everybody, some times: then TCP knows how far each is, and blocks from here on.

    The handshake alone says little where many ranks start at once on few processors.
    """
    try:
        for _ in range(_HANDSHAKES):
            for connection in connections:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                connection.sendall(b".")
            for connection in connections:
                if not connection.recv(1):
                    raise RuntimeError("a rank has left before all had met")
    except OSError as error:
        raise RuntimeError(f"a rank has left before all had met: {error}") from error
    for connection in connections:
        connection.setblocking(True)


def limit_waiting(connection: socket.socket, timeout: timedelta) -> None:
    """A call on it that neither sends nor receives anything for so long raises BlockingIOError."""
    limit = struct.pack("ll", *divmod(round(timeout.total_seconds() * 1e6), 1_000_000))
    for direction in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, direction, limit)


def hang_up(connections: Sequence[socket.socket]) -> None:
    """Whoever waits for one of them, here or there, has its error now. Any thread; never raises; idempotent."""
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def wait_until_arrived(connections: Sequence[socket.socket], most_s: float) -> None:
    """Until everything that was given to them has come to the other machines, or that much time has passed."""
    deadline = time.monotonic() + most_s
    with suppress(OSError):
        for connection in connections:
            while _on_its_way(connection) and time.monotonic() < deadline:
                time.sleep(0.005)


def _on_its_way(connection: socket.socket) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    return count


def own_address() -> str:
    """The IPv4 address at which gloo too is reached: of `GLOO_SOCKET_IFNAME`, of the host's name, or loopback."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if interface:
            request = struct.pack("256s", interface.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24])
        try:
            address = socket.gethostbyname(socket.gethostname())
            probe.bind((address, 0))
        except OSError:
            return "127.0.0.1"
        return address


def _call(at: tuple[str, int], other: int) -> socket.socket:
    """Returns while it connects."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    if (code := connection.connect_ex(at)) not in (0, errno.EINPROGRESS):
        raise RuntimeError(f"rank {other} could not be reached: {os.strerror(code)}")
    return connection


def _greet(connection: socket.socket, hello: bytes, other: int, deadline: float) -> None:
    writable = select.poll()
    writable.register(connection, select.POLLOUT)
    if not writable.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise RuntimeError(f"rank {other} could not be reached: timed out")
    if code := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise RuntimeError(f"rank {other} could not be reached: {os.strerror(code)}")
    connection.send(hello)  # the first bytes of a connection always fit


def _welcomed(
    server: socket.socket, token: bytes, wanted: set[tuple[int, int]], deadline: float
) -> Iterator[tuple[socket.socket, int, int]]:
    """Until all that are wanted are there. Only who knows the token is a rank; anybody else is sent away."""
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        while wanted:
            events = selector.select(max(0.0, deadline - time.monotonic()))
            if not events:
                missing = sorted({rank for rank, _ in wanted})
                raise RuntimeError(f"ranks {missing} have not connected: timed out")
            for key, _ in events:
                if key.fileobj is server:
                    connection, _ = server.accept()
                    connection.setblocking(False)
                    selector.register(connection, selectors.EVENT_READ, bytearray())
                elif (about := _heard(key, selector, token)) in wanted:
                    wanted.discard(about)
                    yield key.fileobj, *about
                elif about is not None:
                    key.fileobj.close()
        for key in list(selector.get_map().values()):
            if key.fileobj is not server:
                key.fileobj.close()


def _heard(key: selectors.SelectorKey, selector: selectors.BaseSelector, token: bytes) -> tuple[int, int] | None:
    """Rank and kind of who has said hello; (-1, -1) of a stranger; None as long as it speaks."""
    connection, said = key.fileobj, key.data
    try:
        received = connection.recv(_HELLO.size - len(said))
    except OSError:
        received = b""
    said += received
    if received and len(said) < _HELLO.size:
        return None
    selector.unregister(connection)
    if len(said) == _HELLO.size:
        known, rank, kind = _HELLO.unpack(said)
        if secrets.compare_digest(known, token):
            return rank, kind
    return -1, -1


_open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
"""Of this process, for its children to close: their copies must not keep a dead rank's connections open."""


def _close_inherited() -> None:
    for connection in list(_open):
        connection.close()


os.register_at_fork(after_in_child=_close_inherited)
