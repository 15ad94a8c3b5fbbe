"""A program at the other end of a connection as if it were here: streams, input, terminal, signals, exit status."""

import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import closing, contextmanager

import pytest
from waiting import eventually

from testbed.kernels import programs
from testbed.kernels.switchboard import Switchboard
from testbed.kernels.visit import Visit
from topologies.errors import RingroadError


@pytest.fixture
def path(tmp_path):
    """The socket of a kernel that happens to be this machine's."""
    with served(tmp_path) as where:
        yield where


@contextmanager
def served(folder):
    near, far = socket.socketpair()
    inner, outer = Switchboard(far.fileno(), {"programs": programs.connect}), Switchboard(near.fileno())
    outer.listen(folder / "programs.sock", "programs")
    with near, closing(outer), far, closing(inner):
        inner.start()
        outer.start()
        yield folder / "programs.sock"


def carried(path, *command, source=None, window=None, environment=None):
    output, errors = bytearray(), bytearray()
    with Visit(path, command, os.environ | (environment or {})) as visit:
        status = visit.carry(source, output.extend, errors.extend, window)
    return status, bytes(output), bytes(errors)


def test_its_streams_its_folder_its_environment_and_its_exit_status_are_passed_on(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = 'pwd; echo "$GREETING"; echo problems >&2; exit 7'
    found = carried(path, "sh", "-c", script, environment={"GREETING": "hello"})
    assert found == (7, f"{tmp_path}\nhello\n".encode(), b"problems\n")


def test_a_program_that_a_signal_has_ended_has_the_status_that_a_shell_gives(path):
    assert carried(path, "sh", "-c", "kill -KILL $$")[0] == 128 + 9


def test_a_program_that_is_not_there_is_named(path):
    with pytest.raises(RingroadError, match="no-such-program: No such file"):
        carried(path, "no-such-program")


def test_more_input_than_fits_on_the_way_is_read_to_its_end_and_comes_back(path, tmp_path):
    data = os.urandom(700_000)
    (tmp_path / "data").write_bytes(data)
    with (tmp_path / "data").open("rb") as source:
        assert carried(path, "cat", source=source.fileno()) == (0, data, b"")


def test_a_program_that_reads_nothing_does_not_wait_for_the_input(path):
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123
        assert carried(path, "echo", "done", source=endless.fileno()) == (0, b"done\n", b"")


def test_what_a_program_leaves_running_holds_up_nobody(path):
    assert carried(path, "sh", "-c", "sleep 30 & echo done") == (0, b"done\n", b"")


def test_a_terminal_has_the_size_that_it_is_given_and_its_input_is_typed(path):
    keyboard, typing = os.pipe()
    os.write(typing, b"stty size; exit 3\n")
    status, output, _ = carried(path, "bash", "--norc", source=keyboard, window=(33, 77))
    assert status == 3
    assert b"33 77\r\n" in output
    for each in (keyboard, typing):
        os.close(each)


def test_a_terminal_that_is_resized_tells_its_program(path):
    script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"
    output = bytearray()
    with Visit(path, ["sh", "-c", script], os.environ) as visit:

        def see(piece):
            output.extend(piece)
            if bytes(output) == b"ready\r\n":
                visit.resized(44, 99)

        assert visit.carry(None, see, lambda _: None, (24, 80)) == 0
    assert output.endswith(b"44 99\r\n")


def test_a_signal_reaches_the_program_and_all_that_it_has_started(path):
    with Visit(path, ["sh", "-c", "trap 'echo bye; exit 5' INT; echo up; sleep 60"], os.environ) as visit:
        output = bytearray()

        def see(piece):
            output.extend(piece)
            if bytes(output) == b"up\n":
                threading.Thread(target=visit.signal, args=(signal.SIGINT,)).start()

        assert visit.carry(None, see, lambda _: None) == 5
    assert output == b"up\nbye\n"


def test_a_visitor_who_is_killed_takes_his_program_with_him(path):
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom testbed.kernels.visit import carry_here\n"
        "carry_here(Path(sys.argv[1]), ['sh', '-c', 'echo $$; exec sleep 1000'], os.environ)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    process.kill()
    process.communicate()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), 20)  # noqa: PTH110


def test_on_a_terminal_every_key_goes_to_the_program_and_the_terminal_is_as_before_afterwards(path):
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom testbed.kernels.visit import carry_here\n"
        "sys.exit(carry_here(Path(sys.argv[1]), ['sh', '-c', 'trap \"echo caught; exit 4\" INT; echo up; sleep 60'],"
        " os.environ))\n"
    )
    screen, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=terminal, stdout=terminal, stderr=terminal
    )
    seen = b""
    while b"up\r\n" not in seen:
        seen += os.read(screen, 1000)
    os.write(screen, b"\x03")  # Ctrl-C, which is a key like any other here and an interrupt there
    assert process.wait(20) == 4
    while b"caught\r\n" not in seen:
        seen += os.read(screen, 1000)
    assert termios.tcgetattr(terminal) == before
    for each in (screen, terminal):
        os.close(each)


def test_a_pipe_that_nobody_reads_ends_the_program(path):
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom testbed.kernels.visit import carry_here\n"
        "sys.exit(carry_here(Path(sys.argv[1]), ['yes'], os.environ))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert process.stdout.read(2) == b"y\n"
    process.stdout.close()
    assert process.wait(20) == 128 + signal.SIGPIPE


@pytest.mark.parametrize(("group", "source"), [("", "0"), ("process_group=0", "None")])
def test_a_terminal_is_read_by_who_has_it_and_by_nobody_in_the_background(tmp_path, group, source):
    # given a shell's place on a terminal of its own, and a program started there, in front or in the background
    said = tmp_path / "source"
    program = f"from testbed.kernels import visit; open({str(said)!r}, 'w').write(str(visit._source()))"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}], {group})"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", start])
    # when it asks what to read
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)
    # then
    assert said.read_text() == source
