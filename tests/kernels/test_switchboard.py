"""Unix sockets on both sides of a line behave as if they had met, however their ends are closed, or not read."""

import hashlib
import socket
import threading
from contextlib import closing, contextmanager

import pytest

from testbed.kernels.switchboard import Switchboard

PATIENCE_S = 20


@contextmanager
def exchange(folder, serve):
    """A socket on one side of a line, and `serve` called with each connection on the other; both ends of the line."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / "inner"))
    listener.listen(64)

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def connected():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(folder / "inner"))
        return connection

    threading.Thread(target=accept, daemon=True).start()
    near, far = socket.socketpair()
    inner, outer = Switchboard(far.fileno(), {"serve": connected}), Switchboard(near.fileno())
    outer.listen(folder / "outer", "serve")
    outer.listen(folder / "nothing", "nobody")
    with near, listener, closing(outer), far, closing(inner):
        inner.start()
        outer.start()
        yield far
        listener.shutdown(socket.SHUT_RDWR)


def visitor(folder, name="outer"):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_S)
    connection.connect(str(folder / name))
    return connection


def all_of(connection):
    received = bytearray()
    while piece := connection.recv(65536):
        received += piece
    return bytes(received)


def digest_and_echo(connection):
    with connection:
        received = all_of(connection)
        connection.sendall(hashlib.sha256(received).digest() + received)


def test_many_at_once_with_more_than_a_window_each_get_their_own_whole(tmp_path):
    sizes = [0, 1, 4096, 65536, 65537, 1_000_000] * 4
    got = {}

    def visit(which, size):
        data = which.to_bytes(2) * (size // 2) + b"x" * (size % 2)
        with visitor(tmp_path) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            got[which] = all_of(connection) == hashlib.sha256(data).digest() + data

    with exchange(tmp_path, digest_and_echo):
        visits = [threading.Thread(target=visit, args=each) for each in enumerate(sizes)]
        for each in visits:
            each.start()
        for each in visits:
            each.join(PATIENCE_S)
    assert got == dict.fromkeys(range(len(sizes)), True)


def test_who_does_not_read_holds_up_nobody_else_and_its_server_is_blocked_as_without_a_line(tmp_path):
    blocked = threading.Event()

    def flood(connection):
        connection.settimeout(1)
        try:
            connection.recv(1)
            while True:
                connection.sendall(bytes(65536))
        except TimeoutError:
            blocked.set()
        except OSError:
            pass
        connection.close()

    with exchange(tmp_path, lambda connection: flood(connection)), visitor(tmp_path) as idle:
        idle.sendall(b"x")
        with visitor(tmp_path) as reading:
            reading.sendall(b"x")
            assert len(reading.recv(1000)) > 0
        assert blocked.wait(PATIENCE_S)
        # what was under way still comes, then the end
        assert 65536 <= len(all_of(idle)) < 2**22


def test_a_server_that_answers_and_closes_without_reading_is_heard(tmp_path):
    def turn_away(connection):
        with connection:
            connection.sendall(b"no room\n")

    with exchange(tmp_path, turn_away), visitor(tmp_path) as connection:
        assert all_of(connection) == b"no room\n"


def test_a_visitor_who_leaves_ends_what_is_sent_to_him(tmp_path):
    ended = threading.Event()

    def talk(connection):
        try:
            while True:
                connection.sendall(b"and so on\n")
        except OSError:
            ended.set()

    with exchange(tmp_path, talk):
        with visitor(tmp_path) as connection:
            assert connection.recv(3) == b"and"
        assert ended.wait(PATIENCE_S)


def test_where_nobody_serves_the_connection_is_closed(tmp_path):
    with exchange(tmp_path, digest_and_echo), visitor(tmp_path, "nothing") as connection:
        assert all_of(connection) == b""


def test_when_the_line_is_cut_everybody_is_closed_and_nobody_is_taken_any_more(tmp_path):
    with exchange(tmp_path, digest_and_echo) as line, visitor(tmp_path) as idle:
        line.shutdown(socket.SHUT_RDWR)
        assert all_of(idle) == b""
        with pytest.raises(OSError, match="refused"):
            visitor(tmp_path)


def test_what_has_been_said_before_the_inner_end_closes_still_arrives(tmp_path):
    said = threading.Event()

    def last_words(connection):
        with connection:
            connection.recv(1)
            connection.sendall(b"z" * 500_000)
        said.set()

    near, far = socket.socketpair()
    here, there = socket.socketpair()
    inner, outer = Switchboard(far.fileno(), {"serve": lambda: there}), Switchboard(near.fileno())
    outer.listen(tmp_path / "outer", "serve")
    with near, far, closing(outer):
        inner.start()
        outer.start()
        with visitor(tmp_path) as connection:
            threading.Thread(target=last_words, args=(here,), daemon=True).start()
            connection.sendall(b"x")
            received = bytearray(connection.recv(1))
            reader = threading.Thread(target=lambda: received.extend(all_of(connection)))
            reader.start()
            said.wait(PATIENCE_S)
            inner.close()
            reader.join(PATIENCE_S)
    assert len(received) == 500_000
