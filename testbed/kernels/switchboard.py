"""Connects Unix sockets on both sides of a line: what `multiplex` decides, read and written in one thread.

The outer end listens and opens a connection for whoever comes; the inner end connects it to whoever serves there.
Ends that are closed, half closed or not read are passed on as they are: both sides behave as if they had met.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from testbed.kernels.multiplex import Happened, Kind, Multiplexer
from topologies import wire
from topologies.errors import RingroadError

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 256
"""At a time; who serves inside turns away others before."""

PIECE_BYTES = 16 * 1024
MUCH_BYTES = 64 * 1024
"""While so much waits to go over the line, nothing more is read for it."""

DRAINING_S = 5.0
"""How long a close waits for what is under way."""

Connect = Callable[[], socket.socket]
"""Makes a connection to a service. OSError if nobody serves."""

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@dataclass
class _Socket:
    """Our end of a connection: `waiting` is what it has not taken yet, `shut`: its end comes after that.

    `broken`: it takes nothing any more, and may still have something to say.
    """

    number: int
    socket: socket.socket
    waiting: bytearray = field(default_factory=bytearray)
    shut: bool = False
    broken: bool = False


class Switchboard:
    """Works in a thread of its own from `start` to `close`. `line` is a file descriptor, which stays the caller's."""

    def __init__(self, line: int, services: dict[str, Connect] | None = None) -> None:
        """`services` are those that the other end may ask for; who has some is the inner end, inside the kernel."""
        self._line, self._services = line, services or {}
        self._multiplexer = Multiplexer(inner=services is not None)
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[int, _Socket] = {}
        self._listeners: dict[socket.socket, str] = {}
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._close_at: float | None = None
        self._line_open = True
        self._thread = threading.Thread(target=self._work, name="switchboard", daemon=True)

    def listen(self, path: Path, service: str) -> None:
        """Before `start`: whoever connects to a socket there (mode 0600) is connected to that service."""
        listener = wire.listen(path)
        listener.setblocking(False)
        self._listeners[listener] = service

    def start(self) -> None:
        """Begin. The other end must be there by then."""
        os.set_blocking(self._line, False)
        self._thread.start()

    def close(self) -> None:
        """Take nobody any more, wait for what is under way (up to `DRAINING_S`), then cut all off."""
        if self._thread.is_alive():
            self._close_at = time.monotonic() + DRAINING_S
            os.eventfd_write(self._wake, 1)
            self._thread.join()
        self._close_listeners()
        self._selector.close()
        os.close(self._wake)

    def _work(self) -> None:
        try:
            self._watch(self._wake, READ)
            for listener in self._listeners:
                self._watch(listener.fileno(), READ, listener)
            while not self._over():
                self._look_out()
                for key, events in self._selector.select(self._patience_s()):
                    self._serve(key.fd, key.data, events)
        except (OSError, RingroadError):
            log.exception("the line to the user-mode kernel has failed")
        finally:
            self._close_listeners()
            for each in list(self._sockets.values()):
                self._drop(each)

    def _over(self) -> bool:
        """Outside, once what came over the line has been handed on; inside, once all has been said."""
        if self._close_at is None:
            return False
        over = not self._sockets
        if self._services and self._line_open:
            over = all(map(self._multiplexer.has_ended, self._sockets)) and not self._multiplexer.outgoing
        return over or self._patience_s() == 0

    def _patience_s(self) -> float | None:
        return None if self._close_at is None else max(0.0, self._close_at - time.monotonic())

    def _look_out(self) -> None:
        """What each descriptor is watched for, as things stand."""
        outgoing = self._multiplexer.outgoing
        if self._line_open:
            self._watch(self._line, READ | (WRITE if self._multiplexer.may_write() else 0))
        room = self._line_open and len(outgoing) < MUCH_BYTES
        for number, each in self._sockets.items():
            readable = READ if room and self._multiplexer.may_send(number) else 0
            self._watch(each.socket.fileno(), readable | (WRITE if each.waiting else 0), each)

    def _watch(self, descriptor: int, events: int, whose: socket.socket | _Socket | None = None) -> None:
        known = self._selector.get_map().get(descriptor)
        if known is None and events:
            self._selector.register(descriptor, events, whose)
        elif known is not None and not events:
            self._selector.unregister(descriptor)
        elif known is not None and (known.events, known.data) != (events, whose):
            self._selector.modify(descriptor, events, whose)

    def _serve(self, descriptor: int, whose: socket.socket | _Socket | None, events: int) -> None:
        if descriptor == self._line:
            self._serve_line(events)
        elif descriptor == self._wake:
            os.eventfd_read(self._wake)
            self._close_listeners()
        elif isinstance(whose, _Socket):
            if events & WRITE and whose.number in self._sockets:
                self._hand_on(whose)
            if events & READ and whose.number in self._sockets:
                self._take_in(whose)
        elif whose in self._listeners:
            self._accept(whose, self._listeners[whose])

    def _serve_line(self, events: int) -> None:
        if events & WRITE and (count := min(PIECE_BYTES, self._multiplexer.may_write())):
            with suppress(OSError):  # that the other end is gone is read below
                self._multiplexer.wrote(os.write(self._line, self._multiplexer.outgoing[:count]))
        if events & READ:
            piece = _read(self._line)
            if piece == b"":
                self._line_ended()
            for happened in self._multiplexer.receive(piece or b""):
                self._heed(happened)

    def _line_ended(self) -> None:
        """The other end is gone: what came from it is still handed on, then all is over."""
        self._watch(self._line, 0)
        self._line_open = False
        self._close_at = self._close_at or time.monotonic() + DRAINING_S
        self._close_listeners()
        for each in list(self._sockets.values()):
            self._multiplexer.reset(each.number)
            self._reset(each)

    def _accept(self, listener: socket.socket, service: str) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):
            connection, _ = listener.accept()
            if len(self._sockets) >= MAX_CONNECTIONS:
                connection.close()
            else:
                self._add(self._multiplexer.open(service), connection)

    def _add(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._sockets[number] = _Socket(number, connection)

    def _heed(self, happened: Happened) -> None:
        """What the other end says of a connection."""
        number = happened.number
        if happened.kind is Kind.OPEN:
            self._connect(number, happened.payload.decode(errors="replace"))
        elif (each := self._sockets.get(number)) is None:
            return
        elif happened.kind is Kind.DATA:
            each.waiting += happened.payload
            self._hand_on(each)
        elif happened.kind is Kind.END:
            each.shut = True
            self._hand_on(each)
        elif happened.kind is Kind.RESET:
            self._reset(each)

    def _connect(self, number: int, service: str) -> None:
        try:
            self._add(number, self._services[service]())
        except (KeyError, OSError) as error:
            log.debug("nobody serves %r: %s", service, error)
            self._multiplexer.reset(number)

    def _hand_on(self, each: _Socket) -> None:
        """As much as the socket takes now of what came for it; its end after that."""
        count = len(each.waiting) if each.broken else 0
        try:
            if each.waiting and not each.broken:
                count = each.socket.send(each.waiting)
            if count == len(each.waiting) and each.shut and not each.broken:
                each.shut = False
                each.socket.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            # Whoever it was has gone, and may have said something before: RESET follows that.
            count, each.broken = len(each.waiting), True
        del each.waiting[:count]
        self._multiplexer.took(each.number, count)
        if each.broken and self._multiplexer.has_ended(each.number):
            self._multiplexer.reset(each.number)
            self._drop(each)
        else:
            self._drop_if_over(each)

    def _take_in(self, each: _Socket) -> None:
        """What the socket has to say."""
        try:
            piece = each.socket.recv(min(PIECE_BYTES, self._multiplexer.may_send(each.number)))
        except BlockingIOError:
            return
        except OSError:
            piece, each.broken = b"", True
        if piece:
            self._multiplexer.send(each.number, piece)
        elif each.broken:
            self._multiplexer.reset(each.number)
            self._drop(each)
        else:
            self._multiplexer.end(each.number)
            self._drop_if_over(each)

    def _reset(self, each: _Socket) -> None:
        """It is over at the other end; what had come before still arrives."""
        if each.waiting and not each.broken:
            each.shut = True
            self._hand_on(each)
        else:
            self._drop(each)

    def _drop_if_over(self, each: _Socket) -> None:
        """Both ends have said all that they had to, and it has arrived."""
        if each.number not in self._multiplexer.numbers and not each.waiting and not each.shut:
            self._drop(each)

    def _drop(self, each: _Socket) -> None:
        if self._sockets.pop(each.number, None) is not None:
            self._watch(each.socket.fileno(), 0)
            each.socket.close()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            self._watch(listener.fileno(), 0)
            listener.close()
        self._listeners.clear()


def _read(descriptor: int) -> bytes | None:
    """None if there is nothing now, empty at the end."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None
    except OSError:
        return b""
