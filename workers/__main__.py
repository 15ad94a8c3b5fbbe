"""`python -m workers --socket PATH`: the launcher of the ranks. Listens first, then imports torch, then serves."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from pathlib import Path

from topologies import wire
from topologies.errors import RingroadError


def main() -> int:
    """Serve until SIGTERM or the end of the process that started this one. 1 with a remedy when that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to serve on")
    parser.add_argument("--listen-fd", type=int, help="descriptor that listens on it already")
    arguments = parser.parse_args()
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the runner decides
    try:
        if arguments.listen_fd is None:
            server = wire.listen(arguments.socket)
        else:
            server = socket.socket(fileno=arguments.listen_fd)
        _serve(server, arguments.socket.parent, parent)
    except RingroadError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _serve(server: socket.socket, folder: Path, parent: int) -> None:
    # A fork copies only the thread that calls it: no library may have made others.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        import torch
    except ImportError as error:
        raise RingroadError(f"torch cannot be imported: {error}", "run scripts/setup") from error
    torch.set_num_threads(1)

    from workers import rank
    from workers.launcher import Launcher

    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RingroadError(f"{threads} threads after importing torch: ranks cannot be forked safely")
    Launcher(server, folder, rank.run).serve(parent)


if __name__ == "__main__":
    sys.exit(main())
