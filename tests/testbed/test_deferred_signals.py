"""A Ctrl-C during work that must not be cut short acts when the work is done."""

import os
import signal
import threading

import pytest

from testbed.emulation.signals import deferred_signals


def test_an_interrupt_waits_until_the_work_is_done():
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_signals():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("all of it")
    assert done == ["all of it"]


def test_handlers_are_as_they_were_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with deferred_signals():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_many_interrupts_are_one():
    handled = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: handled.append(number))
    try:
        with deferred_signals():
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGTERM)
            assert handled == []
        assert handled == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_get_no_signals_and_need_no_care():
    def work():
        with deferred_signals():
            ran.append(True)

    ran = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ran == [True]
