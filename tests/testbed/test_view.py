"""`ringroad view`: a finished run over HTTP, to its own page and to nobody else."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pages import dashboard
from synthetic import make_run

from testbed.live.web.app import STATIC
from testbed.live.web.serving import read_listen
from topologies.errors import InputError

OWN = sorted(path for path in STATIC.iterdir() if path.is_file())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("view") / "r", blocks=2).path


@pytest.fixture(scope="module")
def page(run):
    with dashboard("testbed.cli", "view", run, "--json") as running:
        yield running


def test_the_page_and_all_it_needs_are_served_with_headers_that_keep_others_out(page):
    status, headers, body = page.ask("/")
    needed = re.findall(r'(?:src|href)="([^"#]+)"', body.decode())

    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert {"main.js", "style.css", "vendor/uPlot.iife.min.js"} <= set(needed)
    assert [name for name in needed if page.ask(f"/{name}")[0] != 200] == []


@pytest.mark.parametrize("file", OWN, ids=lambda path: path.name)
def test_nothing_comes_from_outside(file):
    elsewhere = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", file.read_text())

    assert [address for address in elsewhere if "www.w3.org/2000/svg" not in address] == []


def test_no_text_of_a_person_is_ever_put_into_the_page_as_markup():
    makers = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")

    assert [file.name for file in OWN if makers.search(file.read_text())] == []


def test_a_recording_is_served_by_block_and_no_other(page):
    assert page.ask("/recording?block=2")[0] == 200
    assert {page.ask(f"/recording?block={wrong}")[0] for wrong in ("3", "x", "", "1e9")} == {404}


def test_without_the_token_or_by_another_name_nothing_is_served(page):
    assert page.ask("/scene", token=False)[0] == 403
    assert page.ask(f"/?token={page.token[:-1]}", token=False)[0] == 403
    assert page.ask("/scene", Host="evil.example")[0] == 403


def test_whoever_opens_the_printed_address_gets_the_token_as_a_cookie_that_no_script_and_no_other_site_can_use(page):
    status, headers, _ = page.ask(f"/?token={page.token}", token=False)
    cookie = headers["Set-Cookie"]

    assert status == 200
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert page.ask("/scene", token=False, Cookie=cookie.split(";")[0])[0] == 200


def test_a_finished_run_cannot_be_changed_and_has_no_events(page):
    status, answer = page.change(op="fail", link="tokyo-oregon")

    assert status == 400
    assert "finished run" in answer["error"]
    assert page.ask("/events")[0] == 404


def test_connections_that_ask_nothing_do_not_keep_a_page_out_for_long(page):
    idle = [socket.create_connection((page.host, page.port)) for _ in range(70)]
    idle[0].sendall(b"GET / HTTP/1.1\r\nHost: 127")
    try:
        for connection in idle:
            connection.settimeout(60)
            while connection.recv(4096):
                pass
        assert page.ask("/scene")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_whoever_is_refused_has_its_connection_closed(page):
    assert page.ask("/scene", token=False)[1]["Connection"] == "close"
    assert page.ask("/scene")[1]["Connection"] is None


@pytest.mark.parametrize(
    "path", ["/../app.py", "/..%2fapp.py", "/%2e%2e/%2e%2e/sources.py", "/static/", "/etc/passwd", "//etc/passwd"]
)
def test_files_outside_the_page_are_not_served(page, path):
    assert page.ask(path)[0] in (400, 404)


def test_requests_that_are_none_change_nothing(page):
    for junk in (
        b"\x00" * 200,
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"A" * 100_000,
    ):
        with socket.create_connection((page.host, page.port), timeout=20) as connection:
            connection.sendall(junk)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        assert not answer or answer.split()[1] in (b"400", b"403", b"431")
    assert page.ask("/scene")[0] == 200


def test_ctrl_c_ends_it_at_once_and_that_is_no_failure(run):
    with dashboard("testbed.cli", "view", run, "--json") as running:
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=20) == 0


def test_beyond_this_machine_a_token_is_demanded(run):
    command = [sys.executable, "-m", "testbed.cli", "view", str(run), "--listen", "0.0.0.0", "--no-token"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert "asks for a token" in done.stderr
    assert "remedy: leave --no-token out" in done.stderr


@pytest.mark.parametrize(
    ("text", "says"), [("somewhere:80", "not an address to listen on"), ("127.0.0.1:70000", "no such port")]
)
def test_what_is_no_address_is_refused(text, says):
    with pytest.raises(InputError, match=says):
        read_listen(text)


def test_a_port_that_is_taken_is_said_so(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "testbed.cli", "view", str(run), "--listen", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert "in use" in done.stderr


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli", "view", str(tmp_path)], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 2
    assert "not a run folder" in done.stderr


@pytest.mark.parametrize(
    ("text", "address", "port", "loopback"),
    [
        ("8080", "127.0.0.1", 8080, True),
        ("0.0.0.0:8080", "0.0.0.0", 8080, False),
        ("[::1]:8080", "::1", 8080, True),
        ("::1", "::1", 0, True),
        ("10.0.0.7", "10.0.0.7", 0, False),
    ],
)
def test_where_to_listen_is_read_as_people_write_it(text, address, port, loopback):
    listen = read_listen(text)

    assert (listen.address, listen.port, listen.loopback) == (address, port, loopback)


def test_a_token_file_has_to_be_hard_to_guess(tmp_path):
    from testbed.live.web.serving import read_token

    file = Path(tmp_path / "token")
    file.write_text("0123456789abcdef\n")
    assert read_token(file) == "0123456789abcdef"
    file.write_text("short\n")
    with pytest.raises(InputError, match="at least 16"):
        read_token(file)
