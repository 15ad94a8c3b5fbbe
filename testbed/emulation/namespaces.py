"""Doing something inside the network namespace of another process, without a child process.

A namespace belongs to a thread: a short-lived thread goes there and ends there, the caller never moves.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import TypeVar

CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)

Result = TypeVar("Result")


def inside(pid: int, action: Callable[[], Result]) -> Result:
    """Call `action` in the network namespace of process `pid`; its result or its exception. OSError if it is gone."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _in_thread(lambda: _checked(_libc.setns(namespace, CLONE_NEWNET)), action)
    finally:
        os.close(namespace)


def inside_new(action: Callable[[], Result]) -> Result:
    """Call `action` in a new network namespace that is gone afterwards. OSError without the right to make one."""
    return _in_thread(lambda: _checked(_libc.unshare(CLONE_NEWNET)), action)


def _checked(returned: int) -> None:
    if returned != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _in_thread(enter: Callable[[], None], action: Callable[[], Result]) -> Result:
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            enter()
            outcome.append(action())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
