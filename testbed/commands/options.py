"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
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

ListenOn = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="[ADDRESS:]PORT",
        help="Where to listen; 0 is a free port. Only this machine unless an address is given.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="The token is its first line.  [default: a new one each time]"),
]
NoToken = Annotated[
    bool,
    typer.Option("--no-token", help="Whoever can reach the port may use it; not beyond this machine."),
]
