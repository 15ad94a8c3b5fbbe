"""Options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.kernels.choosing import Kernel

AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout; all else goes to stderr.")]

KernelOption = Annotated[
    Kernel,
    typer.Option(
        "--kernel",
        help="Where the WAN is emulated: this machine's own kernel, a user-mode kernel (uml), one in virtual time "
        "(exact). auto: native, unless the WAN needs what this kernel lacks.",
    ),
]
