"""Waiting for something that nobody announces to a test."""

import time


def eventually(condition, timeout_s=60.0):
    """What `condition` returns once it is true; fails after `timeout_s`, a bound on hanging and no measurement."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(0.02)  # Between two looks at something that tells nobody of its change.
    return found
