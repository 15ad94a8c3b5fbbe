"""torch's inference mode belongs to a thread: whoever finishes a collective in another one has to be in it too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")


def in_mode_of_caller(task: Callable[[], Result]) -> Callable[[], Result]:
    """The same task, to be run in any thread: in inference mode if this call is.

    What is made in that mode, results of a script among it, cannot be written outside it.
    """
    if not torch.is_inference_mode_enabled():
        return task

    def carried_out() -> Result:
        with torch.inference_mode():
            return task()

    return carried_out
