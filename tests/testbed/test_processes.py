"""Processes of a run on the real kernel: recorded, watched, ended for certain. Needs no root."""

import os
import select
import subprocess
import sys
import threading

import pytest
from waiting import eventually

from testbed.emulation.processes import (
    Ledger,
    Process,
    ProcessDied,
    Watch,
    end,
    end_of_log,
    marked_environment,
    marked_pids,
    pids_with,
    recorded,
)
from testbed.emulation.state import start_ticks
from topologies import RingroadError

FOREVER = ["sleep", "1000"]
BOUND_S = 20


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(f"t{os.getpid() % 1000:03d}", tmp_path)
    yield ledger
    ledger.end_all()


def saying(line, after="exit 3"):
    return ["sh", "-c", f"echo {line}; {after}"]


def test_what_a_process_says_is_in_its_log_and_it_is_written_down(ledger, tmp_path):
    process, popen = ledger.start("talker", saying("hello"), tmp_path / "talker.log")
    popen.wait(BOUND_S)
    assert (tmp_path / "talker.log").read_text() == "hello\n"
    assert recorded(tmp_path) == [process]


def test_a_record_that_was_cut_off_is_left_out(ledger, tmp_path):
    process, _ = ledger.start("sleeper", FOREVER, None)
    with (tmp_path / "processes.jsonl").open("a") as file:
        file.write('{"name": "half')
    assert recorded(tmp_path) == [process]


def test_a_program_that_does_not_exist_is_named(ledger):
    with pytest.raises(RingroadError, match=r"cannot start ghost.*no-such-program"):
        ledger.start("ghost", ["no-such-program"], None)


def test_the_end_of_a_ledger_ends_children_of_children_too(ledger):
    _, popen = ledger.start("parent", ["sh", "-c", "setsid sleep 1000 & sleep 1000 & wait"], None)
    eventually(lambda: len(marked_pids(ledger.run_id)) == 3)
    assert popen.pid in marked_pids(ledger.run_id)
    ledger.end_all()
    assert marked_pids(ledger.run_id) == []
    assert popen.poll() is not None


def test_a_process_that_ignores_being_asked_is_killed():
    script = (
        "import signal, time\nfor n in (1, 15): signal.signal(n, signal.SIG_IGN)\nprint(flush=True)\ntime.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as stubborn:
        try:
            stubborn.stdout.readline()
            assert end([stubborn.pid], grace_s=0.1) == [stubborn.pid]
            assert stubborn.wait(BOUND_S) == -9
        finally:
            stubborn.kill()  # should `end` have failed: nothing else ends it


def test_ending_what_is_gone_already_is_no_error():
    gone = subprocess.Popen(["true"])
    gone.wait(BOUND_S)
    assert end([gone.pid]) == []


def test_a_reused_pid_is_not_the_same_process():
    here = os.getpid()
    assert Process("this", here, start_ticks(here)).alive
    assert not Process("another", here, start_ticks(here) - 1).alive


def test_a_watch_names_the_first_that_dies_and_quotes_the_end_of_its_log(ledger, tmp_path):
    living, _ = ledger.start("the living", FOREVER, None)
    log = tmp_path / "culprit.log"
    culprit, popen = ledger.start("the culprit", saying("it hurts", "read line"), log, stdin=subprocess.PIPE)
    with Watch([living, culprit]) as watch:
        assert watch.dead() is None
        watch.check()
        # when
        popen.stdin.close()
        readable, _, _ = select.select([watch], [], [], BOUND_S)
        # then
        assert readable == [watch]
        with pytest.raises(ProcessDied, match=rf"the culprit \(pid {culprit.pid}\) has died(.|\n)*it hurts") as caught:
            watch.check()
        assert caught.value.exit_code == 4
        assert caught.value.process == culprit


def test_a_watch_calls_back_from_a_thread_of_its_own(ledger):
    process, popen = ledger.start("short", FOREVER, None)
    called = threading.Event()
    deaths = []
    with Watch([process], on_death=lambda death: (deaths.append(death), called.set())):
        popen.kill()
        assert called.wait(BOUND_S)
    assert [death.process for death in deaths] == [process]


def test_a_process_that_was_dead_before_it_was_watched_counts(ledger):
    process, popen = ledger.start("early", ["true"], None)
    popen.wait(BOUND_S)
    with Watch([process]) as watch:
        assert watch.dead().process == process


def test_a_process_that_is_ended_on_purpose_is_no_death(ledger):
    process, popen = ledger.start("dismissed", FOREVER, None)
    with Watch([process]) as watch:
        watch.remove(process)
        popen.kill()
        popen.wait(BOUND_S)
        assert watch.dead() is None


def test_only_the_last_fifteen_lines_of_a_log_are_quoted(tmp_path):
    log = tmp_path / "long.log"
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert end_of_log(log) == [f"line {number}" for number in range(99_985, 100_000)]
    log.write_bytes(b"bad\x1b[2Jluck\n" + b"\0" * 99_999 + b"end")
    assert end_of_log(log) == ["… " + "\ufffd" * 397 + "end"]
    assert end_of_log(tmp_path / "missing.log") == []
    assert end_of_log(None) == []


def test_a_mark_is_added_to_an_environment_and_changes_nothing_else():
    assert marked_environment("k3f9", {"A": "1"}) == {"A": "1", "RINGROAD_RUN": "k3f9"}


def test_what_has_left_its_session_is_found_by_what_it_inherited():
    mark = f"{os.getpid()}-daemon"
    started = subprocess.run(
        ["sh", "-c", "setsid sleep 60 >&- 2>&- & echo $!"],
        env=os.environ | {"MARK": mark},
        capture_output=True,
        check=True,
        timeout=BOUND_S,
    )
    # While a process becomes another program the kernel shows no environment of it.
    found = eventually(lambda: pids_with("MARK", mark))
    assert found == [int(started.stdout)]
    end(found)
    assert pids_with("MARK", mark) == []
